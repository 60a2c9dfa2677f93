// Package resp is a door for programs that lock on one Redis: it speaks the protocol of Redis, and
// makes leases of a quorum of what they send (package lease). They change one address.
//
//	SET key token NX PX ttl     a lease for the whole TTL from the reply on, or nil
//	DEL key                     its release, if this connection has or has read it
//	EVAL script 1 key token     whatever the script does to its key (script.go)
//	WATCH, GET, MULTI, EXEC     the same for what was watched (exec.go)
//
// What a key holds for a client is the token of its lease. Whatever a command does to a lease is
// done to the exact one that was seen to hold the key, or to nothing. The door keeps no state that
// another one of the fleet would need: scripts are sent again where they are not known, and what a
// connection has is of use to that connection only.
//
// The promise to a client is exclusion as with one Redis that never loses a key. It counts its TTL
// from the reply. It has no token for fencing, and no sign that a lease was lost.
package resp
