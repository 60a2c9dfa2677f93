// Package pipeline talks to Redis masters: one [Node] per master, with one pipelined connection,
// plus one connection for each [Subscription] to a channel of that master.
//
// A node never makes its caller wait. [Node.Do] puts a [Call] into a bounded queue and returns; the
// answer, or the reason why there is none, reaches the call's [Sink] by the call's deadline. One
// goroutine per node writes everything that is queued with one system call, and another one reads.
// There is no goroutine per call. A caller that has the node for itself may do both in their place.
//
// A node guarantees:
//
//   - Two calls made one after the other reach Redis in that order, if both reach it. A release
//     made behind an unanswered SET cannot overtake it, not even over a second connection (see
//     [Call.Keep]).
//   - The error of a failed call carries its fate: [Unsent], [Refused] or [Unknown].
//   - Replies are matched in order and by kind. A server that is out of step, or does not speak the
//     protocol, loses its connection with the first reply that shows it. (RESP2 cannot tell that a
//     reply is one too many if it is of the right kind and comes when one is expected.)
//   - A node that is down fails calls at once.
//
// The package knows nothing about locks.
package pipeline
