package history

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What the environment asks for.
const (
	seedVariable   = "REDQUORUM_SEED"
	countVariable  = "REDQUORUM_HISTORIES"
	folderVariable = "REDQUORUM_HISTORY"
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

// Save writes a history as EDN into the folder that REDQUORUM_HISTORY names, if it names one.
func Save(t testing.TB, name string, events []Event) {
	t.Helper()
	folder := os.Getenv(folderVariable)
	if folder == "" {
		return
	}
	file, err := os.Create(filepath.Join(folder, strings.NewReplacer("/", "-", "=", "-", "#", "-").Replace(name)+".edn"))
	require.NoError(t, err)
	defer func() { assert.NoError(t, file.Close()) }()
	require.NoError(t, WriteEDN(file, events))
}
