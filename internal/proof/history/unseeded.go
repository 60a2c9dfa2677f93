//go:build !go1.26

package history

import "testing"

// SeededRandom reports whether a seed decides what is random in the library.
const SeededRandom = false

// SeedRandom does nothing: before Go 1.26, nobody can seed what is random.
func SeedRandom(*testing.T, uint64) {}
