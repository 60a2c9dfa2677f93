package history

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What the environment asks for.
const (
	seedVariable  = "REDQUORUM_SEED"
	countVariable = "REDQUORUM_HISTORIES"
)

// Seed returns the seed that REDQUORUM_SEED asks for, and whether it asks for one: otherwise a new
// one.
func Seed(t testing.TB) (seed uint64, asked bool) {
	t.Helper()
	seed = value(t, seedVariable, rand.Uint64(), func(text string) (uint64, error) { return strconv.ParseUint(text, 10, 64) })
	return seed, os.Getenv(seedVariable) != ""
}

// Count returns how many histories REDQUORUM_HISTORIES asks for, or the usual number.
func Count(t testing.TB, usual int) int {
	t.Helper()
	return value(t, countVariable, usual, strconv.Atoi)
}

// Length returns the time that a variable asks for, or the usual one.
func Length(t testing.TB, variable string, usual time.Duration) time.Duration {
	t.Helper()
	return value(t, variable, usual, time.ParseDuration)
}

func value[T any](t testing.TB, variable string, usual T, parse func(text string) (T, error)) T {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return usual
	}
	asked, err := parse(text)
	require.NoError(t, err, variable)
	return asked
}
