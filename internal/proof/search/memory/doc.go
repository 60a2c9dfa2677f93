// Package memory is a model of proof of memory, and a search through everything that can
// happen to it.
//
// [Swap] is the script that changes a marker, with the real texts: it can run side by side with the
// real one. [Judge] is how a client admits a node. [Explore] tries every order of votes, proofs,
// handshakes and faults within its limits. The tests also give it wrong rules, and require the
// search to find each.
//
// # Why it is right
//
// A vote counts only if a GET behind it, on the same connection, shows the marker active, under the
// run id of the connection and under the incarnation that the node was admitted with. So from its
// activation under that incarnation until after the vote, the node has forgotten nothing.
//
// By time: what a node forgot before it was activated had expired. No vote of it counted between
// the loss and the activation, because the marker was absent, new or lost, or active under a name
// that nobody was admitted with.
//
// As a new cluster: at the end of the first look all nodes were new at once, because the second
// look found each of them unchanged. So no lock rested on any memory that was there.
//
// # Time
//
// An attempt, or the lock that came of it, may end at any step. Only this is assumed of time: when
// T has passed by the node's clock, every attempt that began before T was written is over, and so
// is its lock. It follows from A1 (docs/safety.md): a lock is trusted for less than its TTL from
// before its first byte, and T is MaxTTL after the script that wrote it. No TTL may be larger than
// the MaxTTL in the marker. A T that is carried over from new to lost still counts from when new
// was written. A round of a renewal is an attempt like any other, because only the votes of that
// round carry the validity that it gives; the model has no renewals.
//
// # What stands for what
//
// There is one lock. An attempt begins with its first SET, because one that began earlier would
// only be over earlier. It is a lock as soon as the second vote is proven, because a client that
// learns of it later holds it for less. Keys of attempts that are over would only refuse votes, so
// they disappear at once. A late SET does the same, and is left out. The text of a marker is its
// state, incarnation and run id. At a handshake a client reads the marker and then INFO; with
// Config.Racing, anything may happen between these and what it writes. The marker's MaxTTL is the
// same for all clients.
//
// By parts: a marker that is left when other keys are gone proves nothing. So where a restart may
// lose some writes and keep others (Config.Tear), the node is not durable, whatever its log has;
// and what the client is told must be so when the marker is written, and again when the node comes
// back.
//
// # What is outside
//
// The promise does not hold in six cases: a durable node comes up with an older disk of its durable
// self; it loads a part of its log, and loads all of it again before a client has connected; a key
// disappears alone; a node takes over its own old data, by a replica, while connections stay; a
// durable node takes over other data and is restarted before any client has connected to it,
// because the restart clears its second replid; and a new cluster is activated while a lock lives
// that every node has forgotten, and no client that knew a node as active has told any of them.
// Each has a field in [Config], or a [Fault], and the search finds each.
package memory
