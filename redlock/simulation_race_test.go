//go:build race

package redlock_test

// raced reports whether the race detector is on, which makes a simulation take ten times as long.
const raced = true
