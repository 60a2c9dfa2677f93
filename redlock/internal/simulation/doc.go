// Package simulation plays package redlock: processes contend for locks over fake nodes, in virtual
// time, while the nodes are broken and healed. One seed decides everything random, except for the
// order in which goroutines run at one instant and the library's own random numbers.
//
//	REDQUORUM_SEED=17 go test -v -run TestSimulated ./redlock/internal/simulation
package simulation
