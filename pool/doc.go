// Package pool holds the connections to Redis masters: one [Node] for each, which several Lockers
// may share.
//
// A node has one pipelined connection, and dials again by itself when that breaks. It never makes
// its callers wait: what is asked of it while it is down fails at once. [Node.Stats] tells how it
// is, and the errors tell why it has no vote.
package pool
