package fence_test

import (
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/fence"
)

// Compare and write are one step: a token that is shown while a write runs waits for its end, or
// its holder would read what the write is about to change.
func TestNoTokenPassesWhileAWriteRuns(t *testing.T) {
	var g fence.Gate
	var rw [3]fence.RWGate
	for name, test := range map[string]struct {
		run  func(token int64, f func() error) error
		next func(token int64) error
	}{
		"Do, and a token":        {g.Do, g.Admit},
		"a write, and a reader":  {rw[0].Write, rw[0].AdmitRead},
		"a write, and a writer":  {rw[1].Write, rw[1].AdmitWrite},
		"a reader, and a writer": {rw[2].Read, rw[2].AdmitWrite},
	} {
		var passed atomic.Bool
		done := make(chan error)
		require.NoError(t, test.run(1, func() error {
			go func() {
				err := test.next(2)
				passed.Store(true)
				done <- err
			}()
			for range 10_000 { // time enough to pass
				runtime.Gosched()
			}
			assert.False(t, passed.Load(), name)
			return nil
		}), name)
		require.NoError(t, <-done, name)
	}
}
