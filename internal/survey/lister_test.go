package survey

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/election"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
	"github.com/redquorum/redquorum/redlock/redlocktest"
)

// listerOf asks the masters of a test.
func listerOf(t *testing.T, c *redlocktest.Cluster) *Lister {
	t.Helper()
	var nodes []*pool.Node
	for _, endpoint := range c.Endpoints() {
		node, err := pool.NewNode(endpoint)
		require.NoError(t, err)
		nodes = append(nodes, node)
	}
	l, err := NewLister(t.Context(), nodes, Config{MaxTTL: time.Minute, Timeout: 10 * time.Second})
	require.NoError(t, err)
	t.Cleanup(l.Close)
	l.Bounds = Bounds{Keys: 10_000, Locks: 1000}
	return l
}

func TestNamesAreInspectedWhateverTheyAreThatOf(t *testing.T) {
	c := redlocktest.Start(t, 3)
	locker := c.Locker(t, redlock.WithNodeTimeout(10*time.Second))
	semaphore, err := locker.Semaphore("s", 2)
	require.NoError(t, err)
	_, err = semaphore.TryAcquire(t.Context())
	require.NoError(t, err)
	_, err = locker.TryLock(t.Context(), "x", redlock.WithOwner("me"))
	require.NoError(t, err)
	e, err := election.New(locker, "e")
	require.NoError(t, err)
	require.NoError(t, e.Run(t.Context(), func(context.Context, int64) error { return nil }))

	l := listerOf(t, c)
	told, err := l.Inspect(t.Context(), []string{"x", "s", "none", "redquorum:x", "x"}, func(name string) bool { return name == "s" })
	require.NoError(t, err)
	require.Len(t, told, 3, "each once, and not what is no name of a lock")
	assert.Equal(t, []string{"none", "s", "x"}, []string{told[0].Name, told[1].Name, told[2].Name})
	assert.Equal(t, []string{"free", "held", "held"}, []string{told[0].State(), told[1].State(), told[2].State()})
	assert.Equal(t, KindSemaphore, told[1].Kind)
	assert.Equal(t, "me", told[2].Owner)

	list, err := l.List(t.Context())
	require.NoError(t, err)
	require.Len(t, list.Locks, 2)
	require.Len(t, list.Idle, 1, "nobody leads")
	assert.Equal(t, "e", list.Idle[0].Name)
	assert.Len(t, list.Idle[0].Terms, 1)
}
