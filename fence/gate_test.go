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

func TestGateRefusesTokensOlderThanTheNewest(t *testing.T) {
	var g fence.Gate
	assert.Zero(t, g.Newest())
	for _, step := range []struct {
		token int64
		want  error
	}{
		{5, nil},
		{5, nil},
		{4, fence.ErrStale},
		{0, fence.ErrInvalid},
		{-7, fence.ErrInvalid},
		{6, nil},
		{5, fence.ErrStale},
		{1<<53 - 1, nil},
		{1<<53 - 2, fence.ErrStale},
		{1<<53 - 1, nil},
		{math.MaxInt64, nil},
		{math.MaxInt64 - 1, fence.ErrStale},
	} {
		require.ErrorIs(t, g.Admit(step.token), step.want, step.token)
	}
	assert.Equal(t, int64(math.MaxInt64), g.Newest())
}

func TestGateRunsAWriteOnlyIfItAdmitsTheToken(t *testing.T) {
	var g fence.Gate
	failed := errors.New("disk full")
	require.ErrorIs(t, g.Do(2, func() error { return failed }), failed)
	require.ErrorIs(t, g.Do(1, func() error { t.Error("ran"); return nil }), fence.ErrStale)
	require.ErrorIs(t, g.Do(0, func() error { t.Error("ran"); return nil }), fence.ErrInvalid)
	require.NoError(t, g.Do(2, func() error { return nil }))
}

func TestGateAgreesWithAMaximum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var g fence.Gate
		var newest int64
		for _, token := range rapid.SliceOf(rapid.Int64Range(-2, 9)).Draw(t, "tokens") {
			err := g.Admit(token)
			assert.Equal(t, token >= 1 && token >= newest, err == nil)
			if err == nil {
				newest = token
			}
			assert.Equal(t, newest, g.Newest())
		}
	})
}

// Writes that the gate admits run one after the other, in the order of their tokens.
func TestGateLetsWritesPassInOrder(t *testing.T) {
	var g fence.Gate
	var written []int64 // guarded by the gate
	var all sync.WaitGroup
	for i := range int64(200) {
		all.Go(func() {
			err := g.Do(1+i*37%200, func() error {
				written = append(written, 1+i*37%200)
				return nil
			})
			if err != nil {
				assert.ErrorIs(t, err, fence.ErrStale)
			}
		})
	}
	all.Wait()
	assert.IsIncreasing(t, written)
	assert.Equal(t, int64(200), g.Newest())
}

func TestDoWithoutAFunctionAdmitsNothing(t *testing.T) {
	var g fence.Gate
	require.ErrorIs(t, g.Do(7, nil), fence.ErrInvalid)
	assert.Zero(t, g.Newest())
}

// A holder was paused after it had read, and its lock is another's. Its late write must not come
// between the read and the write of the other.
func TestWhatIsReadBehindATokenIsTrueWhenItIsWritten(t *testing.T) {
	for _, shown := range []bool{true, false} {
		var g fence.Gate
		balance := 100
		withdraw := func(token int64, read, amount int) error {
			return g.Do(token, func() error { balance = read - amount; return nil })
		}
		pausedRead := balance
		require.NoError(t, g.Admit(1))
		if shown {
			require.NoError(t, g.Admit(2))
		}
		nextRead := balance
		late := withdraw(1, pausedRead, 30)
		require.NoError(t, withdraw(2, nextRead, 50))
		assert.Equal(t, 50, balance)
		if shown {
			require.ErrorIs(t, late, fence.ErrStale, "whoever shows its token first is safe")
		} else {
			require.NoError(t, late, "the 30 are back, and nobody knows: show the token before you read")
		}
	}
}
