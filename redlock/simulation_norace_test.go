//go:build !race

package redlock_test

// raced tells that the race detector is on, under which a simulation takes ten times as long.
const raced = false
