// Package chaos has a test that uses all kinds of locks in many processes on five real servers,
// beside a fault every one to two seconds and a change of members every few seconds, and judges
// what happened.
//
//	REDQUORUM_CHAOS=3m go test -count=1 -timeout 10m -v -run TestChaos ./internal/proof/servers/chaos
//
// Without the variable it runs for three seconds. REDQUORUM_SEED repeats how the faults are
// shuffled, but not their timing.
//
// Each client writes what it has, and until when it believes so: until it begins to release, is
// told of the loss, or its validity ends, whichever is first. Nobody else may have it meanwhile.
//
// The faults stay within the assumptions of docs/safety.md, so every violation is a bug. At most
// two of the five masters have forgotten what they held at the same time, or are away. The network
// may do anything, so it also cuts clients off from a majority. The clock of one master is off by a
// constant, or runs within the drift that clients allow for. The foreign clients, which know no
// proof of memory, are told by a key of each master that its memory counts. They count by their
// list, the five, of which they need three. The members are these five, or six of which a quorum
// has four, and so three of the five: every quorum of ours shares a master with each of theirs.
// More than one member beside their list, or one less, would not do (A4).
//
// TestChaosOfDoors does the same with programs in three languages, which lock by two `redlock
// serve`, beside programs in Go on the same names. Servers are killed and stopped as well.
package chaos
