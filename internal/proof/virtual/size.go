package virtual

import (
	"os"
	"testing"

	"github.com/redquorum/redquorum/internal/proof/search"
)

// Raced reports whether the race detector is on, which makes everything take ten times as long.
const Raced = search.Race

// Thorough reports whether to try all, where an ordinary run tries some: `make prove` does.
func Thorough() bool {
	return os.Getenv("REDQUORUM_PROVE") == "1" || os.Getenv("REDQUORUM_SOAK") == "1"
}

// Soaks reports whether tests run at the size that the project promises.
func Soaks() bool { return os.Getenv("REDQUORUM_SOAK") == "1" }

// SizeOf returns how often to do something: with REDQUORUM_SOAK=1, as often as the project
// promises.
func SizeOf(small, full int) int {
	switch {
	case Soaks():
		return full
	case testing.Short(), Raced:
		return max(small/10, 1)
	default:
		return small
	}
}

// Unraced returns the first number under the race detector, which makes everything take ten times
// as long, and the second one without it.
func Unraced(raceSize, size int) int {
	if Raced {
		return raceSize
	}
	return size
}

// SkipRaced skips a statistic of many turns under the race detector. It would take half a minute,
// and its goroutines are those of the simulations, which do run.
func SkipRaced(t *testing.T) {
	t.Helper()
	if Raced {
		t.Skip("a statistic of many turns: it runs without the race detector")
	}
}
