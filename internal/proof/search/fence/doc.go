// Package fence is a model of how a quorum of independent nodes produces fencing tokens, and a
// search through everything that can happen to it.
//
// What a node does is spec.Entry. [First] and [Second] are the caller's decisions. [Explore] and
// [ExploreRestarts] (with and without [Faulty]) try every order of messages, losses, expiries and
// restarts within their limits. The tests also give them wrong rules, and require the search to
// find each.
//
// # Why it is right
//
// A counter only rises. A grant and a successful raise both move the counter of their node up to
// the number that they answer with. So on one node each number is given out once, by one execution
// of one script for one attempt. We say that the node confirmed the number to that attempt. A token
// is a number that a quorum of all configured nodes confirmed to one attempt, after that attempt
// began.
//
// Unique: two quorums have a node in common, and that node confirms a number once.
//
// In order: let A be acquired before B begins. Some node confirmed both tokens, A's before B began
// and B's after. Its counter rose in between.
//
// Neither argument looks at keys or clocks. Whatever expires or arrives late, a counter that is
// kept only rises. The keys make sure that there is one holder at a time, and the timestamps that
// the nodes mostly agree in the first round.
//
// Which number it is makes no difference either. So a node that is far ahead is left out: the
// others are not raised to its number, and its counter is brought back. [Faulty] says why that is
// right, although a counter falls.
package fence
