package fence_test

import (
	"errors"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
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
		before := g.Newest()
		require.ErrorIs(t, g.Admit(step.token), step.want, step.token)
		if step.want != nil {
			require.Equal(t, before, g.Newest())
		}
	}
	assert.Equal(t, int64(math.MaxInt64), g.Newest())
}

func TestGatesRunAFunctionOnlyIfTheyAdmitTheToken(t *testing.T) {
	var g fence.Gate
	var rw fence.RWGate
	failed := errors.New("disk full")
	never := func() error { t.Error("ran"); return nil }
	for _, run := range []func(int64, func() error) error{g.Do, rw.Write, rw.Read} {
		require.ErrorIs(t, run(2, func() error { return failed }), failed)
		require.ErrorIs(t, run(1, never), fence.ErrStale)
		require.ErrorIs(t, run(0, never), fence.ErrInvalid)
		require.ErrorIs(t, run(3, nil), fence.ErrInvalid)
	}
	require.ErrorIs(t, rw.Write(2, never), fence.ErrStale, "it is a reader's")
	write, read := rw.Newest()
	assert.Equal(t, []int64{2, 2, 2}, []int64{g.Newest(), write, read}, "without a function, nothing is admitted")
}

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

// What was saved is what counts after a restart, also where a reader has the token of a writer.
func TestRestoredRWGateRefusesWhatTheOldOneWould(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var before, after fence.RWGate
		admit := func(reads bool, token int64, gates ...*fence.RWGate) (errs []error) {
			for _, g := range gates {
				if reads {
					errs = append(errs, g.AdmitRead(token))
				} else {
					errs = append(errs, g.AdmitWrite(token))
				}
			}
			return errs
		}
		reads, token := rapid.Bool(), rapid.Int64Range(1, 6)
		for range rapid.IntRange(0, 6).Draw(t, "steps") {
			admit(reads.Draw(t, "reads"), token.Draw(t, "token"), &before)
		}
		write, read := before.Newest()
		require.NoError(t, after.Restore(write, read))
		require.NoError(t, after.Restore(0, 0), "which lowers nothing")
		again, seen := after.Newest()
		require.Equal(t, []int64{write, read}, []int64{again, seen})
		both := admit(reads.Draw(t, "reads"), token.Draw(t, "next"), &before, &after)
		require.Equal(t, both[0], both[1])
	})
	var g fence.RWGate
	require.ErrorIs(t, g.Restore(-1, 0), fence.ErrInvalid)
	require.ErrorIs(t, g.Restore(0, -1), fence.ErrInvalid)
}

// history is what happens to a resource: locks in the order in which they were acquired, and which
// of them use it, in which order.
type history struct {
	locks []sharedLock
	uses  []int // indexes of locks
}

type sharedLock struct {
	reads bool
	token int64
}

// histories draws locks whose tokens have the order that RWGate relies on, and no other.
var histories = rapid.Custom(func(t *rapid.T) (h history) {
	for range rapid.IntRange(1, 6).Draw(t, "locks") {
		reads, least := rapid.Bool().Draw(t, "reads"), int64(1)
		for _, earlier := range h.locks {
			switch {
			case !reads:
				least = max(least, earlier.token+1)
			case !earlier.reads:
				least = max(least, earlier.token)
			}
		}
		h.locks = append(h.locks, sharedLock{reads, least + rapid.Int64Range(0, 2).Draw(t, "more")})
	}
	h.uses = rapid.SliceOfN(rapid.IntRange(0, len(h.locks)-1), 1, 12).Draw(t, "uses")
	return h
})

// Each use is refused exactly if a later lock that excludes it has used the resource before. That
// looks at no token.
func TestRWGateRefusesExactlyTheLocksThatALaterOneExcludes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := histories.Draw(t, "history")
		var g fence.RWGate
		used := map[int]bool{}
		for step, i := range h.uses {
			lock, stale := h.locks[i], false
			for j := range used {
				stale = stale || j > i && !(lock.reads && h.locks[j].reads)
			}
			admit := g.AdmitWrite
			if lock.reads {
				admit = g.AdmitRead
			}
			require.Equal(t, stale, admit(lock.token) != nil, "%+v: step %d", h, step)
			if !stale {
				used[i] = true
			}
		}
	})
}
