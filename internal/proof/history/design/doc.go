// Package design plays random histories of the whole protocol: a quorum of nodes, clients that
// acquire, extend and release, and everything that the claims of docs/safety.md allow to happen to
// them. The models of its parts are searched exhaustively in small worlds. Here the parts are put
// together, with real numbers, and time that passes: a million histories take about a minute of one
// processor.
//
// Nothing of the library runs here but the allowance for drift, and no script. What nodes do is
// what the models say that they do (shared.Entry, permit.Entry), and so are the decisions
// about tokens and markers (fence.First, memory.Judge). Time is an integer.
//
// # What happens
//
// A history is a plan that a seed and a number make: which clients want the lock when and for how
// long, how wrong each clock is, and what strikes when. There are one to seven nodes and two to
// five clients, and one name: a mutex, a shared lock, or a semaphore. Messages take as long as
// their names say, so that leaving out a part of the plan does not change the rest.
//
//   - Clocks run at rates that drift apart by less than 1 %. Wall clocks of clients are off by any
//     time. Nodes are off by 5 s at most, except for one, whose clock and counter may be minutes
//     ahead or behind.
//   - Connections keep the order of messages. They are cut (what is under way still arrives), lost,
//     held back in either direction, and repeat a request. The next connection kills the one
//     before, and brings the releases that were not answered.
//   - Nodes and clients stop and go on. Clients crash. Nodes die and come back without their data,
//     with all of it, or with what it was before; or lose it on the spot.
//   - In some histories time is not as assumed: nodes lose the key of the lock, and their clocks
//     leap. There only what needs no time is judged, which is tokens and the order of messages.
//
// # What is judged
//
// [Claim] has the list. Judges know true time and look into all nodes; clients do not.
//
// The tests give the protocol mistakes ([Rules]), and require histories to find each.
//
// # What is outside
//
// Waiting: a client that is refused asks again after a pause, and nothing is handed over. New
// clusters: a node that nobody has known waits for T (QuarantineStrict). Adoption, sets of names, a
// minimum hold, intents of writers, fencing of permits, and counters that expire.
package design
