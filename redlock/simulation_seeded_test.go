//go:build go1.26

package redlock_test

import (
	"testing"
	"testing/cryptotest"
)

// seededRandom reports whether a seed decides what is random in the library.
const seededRandom = true

// seedRandom seeds all that is random in this process.
func seedRandom(t *testing.T, seed uint64) { cryptotest.SetGlobalRandom(t, seed) }
