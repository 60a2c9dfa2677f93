// Package spec says what a node does, and how a client judges it: once, for all proofs. The real
// scripts are held against it (redlock/internal/wire, redlock/internal/members), and the searches
// of internal/proof/search try everything that can happen around it.
//
//   - [Entry] is what a node keeps for one name: of a mutex, its counter, its readers and its
//     waiters; [Entries] are a set of them, and [Node] a node with real numbers;
//   - [Semaphore] is what it keeps of permits;
//   - [Facts] are what a client knows of a node's marker, [Judge] what it does next, and [Swap] the
//     script that changes markers.
//
// V is the type of values: strings beside a real server, small numbers in a search. Why this is
// right is said where it is searched.
package spec
