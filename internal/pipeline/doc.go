// Package pipeline talks to Redis masters: one [Node] per master, one pipelined connection per node, and one more for each
// [Subscription] to a channel of it.
//
// A node never makes its caller wait: [Node.Do] puts a [Call] into a bounded queue and returns, and the answer, or
// the reason why there is none, comes to the call's [Sink] by the call's deadline. One goroutine per node writes
// everything that is queued with one system call, another one reads; there is no goroutine per call.
//
// What a node promises:
//
//   - Two calls that were made one after the other reach Redis in that order, if both reach it. A release that is made behind
//     an unanswered SET cannot overtake it, also not by way of a second connection (see [Call.Keep]).
//   - The fate of a call that failed is in its error: [Unsent], [Refused] or [Unknown].
//   - Replies are matched in order and by kind. A server that is out of step, or does not speak the protocol, loses its
//     connection with the first reply that shows it. (RESP2 has no way to tell that a reply of the right kind, in the
//     moment in which one is expected, is one too many.)
//   - A node that is down says so at once.
//
// The package knows nothing of locks.
package pipeline
