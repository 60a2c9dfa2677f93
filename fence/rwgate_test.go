package fence_test

import (
	"errors"
	"math"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/redquorum/redquorum/fence"
)

func TestRWGateRefusesTokensOlderThanTheNewestThatExcludesThem(t *testing.T) {
	var g fence.RWGate
	for _, step := range []struct {
		admit func(int64) error
		token int64
		want  error
	}{
		{g.AdmitWrite, 5, nil},
		{g.AdmitWrite, 5, nil},
		{g.AdmitRead, 4, fence.ErrStale},
		{g.AdmitRead, 5, nil}, // of a reader behind the writer
		{g.AdmitWrite, 5, fence.ErrStale},
		{g.AdmitRead, 8, nil},
		{g.AdmitRead, 7, nil}, // beside it
		{g.AdmitWrite, 8, fence.ErrStale},
		{g.AdmitWrite, 9, nil},
		{g.AdmitRead, 8, fence.ErrStale},
		{g.AdmitRead, 0, fence.ErrInvalid},
		{g.AdmitWrite, 0, fence.ErrInvalid},
		{g.AdmitWrite, -7, fence.ErrInvalid},
		{g.AdmitWrite, math.MaxInt64, nil},
		{g.AdmitRead, math.MaxInt64 - 1, fence.ErrStale},
		{g.AdmitRead, math.MaxInt64, nil},
		{g.AdmitWrite, math.MaxInt64, fence.ErrStale},
	} {
		require.ErrorIs(t, step.admit(step.token), step.want, "%+v", step)
	}
	write, read := g.Newest()
	assert.Equal(t, []int64{math.MaxInt64, math.MaxInt64}, []int64{write, read})
}

func TestRWGateRunsAFunctionOnlyIfItAdmitsTheToken(t *testing.T) {
	var g fence.RWGate
	failed := errors.New("disk full")
	never := func() error { t.Error("ran"); return nil }
	require.ErrorIs(t, g.Write(2, func() error { return failed }), failed)
	require.ErrorIs(t, g.Read(2, func() error { return failed }), failed)
	require.ErrorIs(t, g.Write(2, never), fence.ErrStale)
	require.ErrorIs(t, g.Read(1, never), fence.ErrStale)
	require.ErrorIs(t, g.Write(0, never), fence.ErrInvalid)
	require.ErrorIs(t, g.Read(0, never), fence.ErrInvalid)
	require.ErrorIs(t, g.Write(3, nil), fence.ErrInvalid)
	require.ErrorIs(t, g.Read(3, nil), fence.ErrInvalid)
	write, read := g.Newest()
	assert.Equal(t, []int64{2, 2}, []int64{write, read}, "without a function, nothing is admitted")
}

// What was saved is what counts after a restart, also where a reader has the token of a writer.
func TestRestoredRWGateRefusesWhatTheOldOneWould(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var before, after fence.RWGate
		token := rapid.Int64Range(1, 6)
		for range rapid.IntRange(0, 6).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "reads") {
				_ = before.AdmitRead(token.Draw(t, "token")) //nolint:errcheck // either will do
			} else {
				_ = before.AdmitWrite(token.Draw(t, "token")) //nolint:errcheck // either will do
			}
		}
		write, read := before.Newest()
		require.NoError(t, after.Restore(write, read))
		require.NoError(t, after.Restore(0, 0), "which lowers nothing")
		again, seen := after.Newest()
		require.Equal(t, []int64{write, read}, []int64{again, seen})
		next := token.Draw(t, "next")
		if rapid.Bool().Draw(t, "reads") {
			require.Equal(t, before.AdmitRead(next), after.AdmitRead(next))
		} else {
			require.Equal(t, before.AdmitWrite(next), after.AdmitWrite(next))
		}
	})
	var g fence.RWGate
	require.ErrorIs(t, g.Restore(-1, 0), fence.ErrInvalid)
	require.ErrorIs(t, g.Restore(0, -1), fence.ErrInvalid)
}

// A write runs alone, and a read sees no write of a token above its own.
func TestRWGateKeepsReadsAndWritesApart(t *testing.T) {
	var g fence.RWGate
	var written []int64 // guarded by the gate
	var all sync.WaitGroup
	for i := range int64(200) {
		token := 1 + i*37%200
		all.Go(func() {
			err := g.Write(token, func() error {
				written = append(written, token)
				return nil
			})
			if err != nil {
				assert.ErrorIs(t, err, fence.ErrStale)
			}
		})
		all.Go(func() {
			err := g.Read(token, func() error {
				if len(written) > 0 {
					assert.LessOrEqual(t, written[len(written)-1], token)
				}
				return nil
			})
			if err != nil {
				assert.ErrorIs(t, err, fence.ErrStale)
			}
		})
	}
	all.Wait()
	assert.IsIncreasing(t, written)
	write, read := g.Newest()
	assert.Equal(t, int64(200), max(write, read))
}

// Two reads that wait for each other end, because both pass at once.
func TestRWGateLetsReadersInTogether(t *testing.T) {
	var g fence.RWGate
	first, second := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		assert.NoError(t, g.Read(2, func() error {
			close(first)
			<-second
			return nil
		}))
	})
	all.Go(func() {
		<-first
		assert.NoError(t, g.Read(1, func() error {
			close(second)
			return nil
		}))
	})
	all.Wait()
}
