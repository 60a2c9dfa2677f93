package search

import (
	"os"
	"testing"
)

// Size says when a test of a search is run.
type Size uint8

// The sizes.
const (
	Always Size = iota
	Large       // only if REDQUORUM_SEARCH or REDQUORUM_SOAK is 1; takes seconds
	Soak        // only if REDQUORUM_SOAK is 1; takes minutes and gigabytes
)

// Soaking reports whether tests are run at their full size.
func Soaking() bool { return os.Getenv("REDQUORUM_SOAK") == "1" }

// Skip skips a test that is too large for this run.
func (s Size) Skip(tb testing.TB) {
	tb.Helper()
	switch {
	case s == Soak && !Soaking():
		tb.Skip("takes minutes and gigabytes; run with REDQUORUM_SOAK=1")
	case s == Large && !Soaking() && os.Getenv("REDQUORUM_SEARCH") != "1":
		tb.Skip("takes seconds; run with REDQUORUM_SEARCH=1, as `make search` does")
	case s != Always && Race:
		tb.Skip("too large for the race detector; the smaller ones have the same code")
	}
}
