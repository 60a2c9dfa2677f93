//go:build go1.26

package history

import (
	"testing"
	"testing/cryptotest"
)

// SeededRandom reports whether a seed decides what is random in the library.
const SeededRandom = true

// SeedRandom seeds all that is random in this process, until the test ends.
func SeedRandom(t *testing.T, seed uint64) { cryptotest.SetGlobalRandom(t, seed) }
