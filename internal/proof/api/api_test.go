package api

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the snapshot")

// The snapshot is part of each change of the API: go test ./internal/proof/api -update.
func TestTheExportedAPIIsThatOfTheSnapshot(t *testing.T) {
	const snapshot = "testdata/api.txt"
	got, err := Snapshot("../../..")
	require.NoError(t, err)
	if *update {
		require.NoError(t, os.WriteFile(snapshot, []byte(got), 0o600))
		return
	}
	want, err := os.ReadFile(snapshot)
	require.NoError(t, err)
	assert.Equal(t, string(want), got, "if this is meant: go test ./internal/proof/api -update")
}

func TestSnapshotHasWhatUsersCanReach(t *testing.T) {
	root := t.TempDir()
	write := func(path, text string) {
		path = filepath.Join(root, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	write("a/a.go", `// Package a.
package a

import "errors"

// ErrBad is documented.
var ErrBad = errors.New("bad")

const (
	One = 1
	two = 2
)

// T is documented.
type T struct {
	Shown  int // a comment
	hidden int
}

// Do does.
func (t *T) Do(n int) error { t.hidden = n + two; return ErrBad }

func (t *T) hide() {}

type u struct{}

func (u) Do() {}
`)
	write("a/a_windows.go", "package a\n\nconst OnlyThere = 1\n")
	write("a/a_test.go", "package a\n\nconst OnlyTests = 1\n")
	write("internal/b/b.go", "package b\n\nconst B = 1\n")
	write("contrib/c/go.mod", "module c\n")
	write("contrib/c/c.go", "package c\n\nconst C = 1\n")
	got, err := Snapshot(root)
	require.NoError(t, err)
	assert.Equal(t, `package a

const One = 1
func (t *T) Do(n int) error
type T struct {
	Shown int
	// contains filtered or unexported fields
}
var ErrBad

`, got)
}
