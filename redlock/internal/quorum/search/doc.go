// Package search goes through everything that can happen to a lock that is extended while somebody
// takes it by force. It drives quorum.Denials, quorum.Ballot and quorum.DecideHeld; the tests have
// the nodes and what becomes of messages.
//
// Three nodes have the key of one holder. The force deletes it at each node once, at any time.
// Every message may be late or lost, but overtakes none to or from the same node. Instead of the
// force, one node may forget the key, as often as it likes.
package search
