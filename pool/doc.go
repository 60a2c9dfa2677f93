// Package pool holds the connections to Redis masters: one [Node] per master, which several Lockers
// may share.
//
// A node has one pipelined connection, and redials by itself when that breaks. It never makes its
// callers wait: while it is down, calls fail at once. [Node.Stats] shows what state a node is in.
// The errors say why a node is down or has no vote, and what may have become of a failed call.
package pool
