// Package search visits every state that a model can reach, breadth first, until a step breaks a
// claim. A model is a protocol with everything that can happen to it: every order of messages,
// losses and faults, within limits.
//
// # How to write a model
//
// A world is one state: a struct of small numbers, bools and arrays of such, without pointers,
// slices, strings or maps. It holds nodes, clients, and what may still come (faults, restarts). The
// engine compares, keeps and names worlds by their memory, so nothing has to be packed.
//
// An explorer has the limits (Config) and the protocol (Rules, whose zero value is the right one),
// and is a [Model]: Start, and Each, which visits every step. A step is a copy of the world with
// one change, and an [Event] that says who did what where:
//
//	next := *w
//	next.nodes[n].key = valueOf(c)
//	visit(&next, search.Event{Kind: Granted, Client: c, Node: n})
//
// A claim is a sentence. A step that breaks it has it in [Event.Broken], and ends the search with
// the shortest way there. What a node does is not written in the model, but taken from
// internal/proof/spec, against which the real scripts are held.
//
// Names of nodes and clients that mean nothing multiply the states by up to n!. With Alike, the
// explorer is [Symmetric], and only one of all worlds is kept that differ in names. Where the names
// are, the fields of the world say:
//
//	nodes   [3]node `search:"nodes"`           // the element of a node moves with it
//	key     uint8   `search:"client"`          // 0, or one more than the number of a client
//	key     Value   `search:"client+3"`        // the client of number 0 is 3
//	waiting uint8   `search:"bits of clients"` // a bit for each; further ones mean nothing
//	notes   uint16  `search:"3 bits of nodes"` // a small number for each
//	name    uint8   `search:"fresh"`           // 0, or one of many names that mean nothing
//	votes   [3]int8 `search:"nodes, other"`    // for each node the number of another thing
//
// A type that is [Named] says it for all of its values, where a field says nothing.
//
// Explore is then one line:
//
//	return search.Run(func() search.Model[world] { return &explorer{Config: config, Rules: rules} })
//
// The tests are tables, a row for each search: [Holds] for worlds in which no claim may break, with
// at least so many states and the kinds of steps that must be reached, and for harmless changes;
// [Finds] for rules with one mistake each, and the claim that it breaks. [CheckNames] compares the
// steps of worlds that differ in names only: it fails if a field does not say what it names.
//
// A model whose clients may be kept waiting is [Fair], and [Progress] looks for worlds from which
// nobody is ever served, and for circles.
//
// A package of a model has the argument and the assumptions in doc.go. All else of it is tests:
// limits and rules in explore_test.go, the state and its names in world_test.go, the steps in
// steps_test.go, and the tables in a file of their own, with a TestMain that calls [Main]. It
// belongs in MODELS of the Makefile, and in the models of internal/proof/prove.
//
// The smallest model is the one in search_test.go. Of the real ones, memory is the smallest.
package search
