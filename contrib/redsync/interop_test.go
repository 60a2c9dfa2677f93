package redsync_test

import (
	"testing"
	"time"

	original "github.com/go-redsync/redsync/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/redquorum/redquorum/contrib/redsync"
	"github.com/redquorum/redquorum/internal/proof/docs"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
)

func TestMutexesOfBothKindsExcludeEachOther(t *testing.T) {
	c := cluster.Start(t, masters)
	ours, theirs := newRedsync(t, c), original.New(newPools(t, c.Masters)...)
	type mutex interface {
		Lock() error
		Unlock() (bool, error)
		Until() time.Time
	}
	held, locks := 0, 0 // guarded by the lock; the race detector looks at them, too
	var all errgroup.Group
	for i := range 6 {
		all.Go(func() error {
			for range 20 {
				m := mutex(ours.NewMutex("a", redsync.WithTries(1_000)))
				if i%2 == 0 {
					m = theirs.NewMutex("a", original.WithTries(10_000), original.WithRetryDelay(time.Millisecond))
				}
				if err := m.Lock(); err != nil {
					return err
				}
				held++
				assert.Equal(t, 1, held)
				assert.True(t, time.Now().Before(m.Until()))
				held--
				locks++
				ok, err := m.Unlock()
				assert.True(t, ok, "%v", err)
			}
			return nil
		})
	}
	require.NoError(t, all.Wait())
	assert.Equal(t, 120, locks)
}

func TestALockGoesFromOneLibraryToTheOtherByItsValue(t *testing.T) {
	c := cluster.Start(t, masters)
	ours, theirs := newRedsync(t, c), original.New(newPools(t, c.Masters)...)

	first := theirs.NewMutex("a")
	require.NoError(t, first.Lock())
	second := ours.NewMutex("a", redsync.WithValue(first.Value()))
	requireDone(t, second.Extend)
	c.AwaitHeldEverywhere(t, "a", second.Value())
	ok, err := first.Unlock()
	assert.False(t, ok, "the old value owns nothing")
	var taken *original.ErrTaken
	assert.ErrorAs(t, err, &taken)

	third := theirs.NewMutex("a", original.WithValue(second.Value()))
	requireDone(t, third.Unlock)
	ok, err = second.Extend()
	assert.False(t, ok)
	assert.Error(t, err)
}

func TestTheCodeOfTheReadmeCompiles(t *testing.T) {
	docs.RequireReadme(t, 1, "var ctx context.Context", "context", "time", ours)
}
