package admin_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redquorum/redquorum/internal/proof/virtual"
	"github.com/redquorum/redquorum/redlock"
)

// whileOneIsRemoved runs a test on four members. From lose on, one is silent to the client, and
// another one has something else under the key; the other two grant whatever they are asked. Then
// the one that refuses is removed: two are a quorum, and no vote comes in that would say so.
func whileOneIsRemoved(t *testing.T, name string, test func(c *cluster, l *redlock.Locker, lose, remove func())) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		inCluster(t, 4, 0, func(t *testing.T, c *cluster) {
			all, silent := []int{0, 1, 2, 3}, make([]atomic.Bool, 4)
			operator := c.Among(all)
			l := c.Listing(all, c.Sparing(silent), redlock.WithTTL(9*time.Second), redlock.WithNodeTimeout(9*time.Second))
			time.Sleep(2 * virtual.MaxTTL)
			test(c, l, func() {
				silent[2].Store(true)
				c.Set("a", "of another client", time.Minute, 3)
			}, func() { c.change(operator, remove(3)) })
		})
	})
}

func TestTheVotesOfARoundCountByTheListThatIsInForceAtItsEnd(t *testing.T) {
	for name, call := range map[string]func(ctx context.Context, l *redlock.Locker) (*redlock.Lock, error){
		"Lock":     func(ctx context.Context, l *redlock.Locker) (*redlock.Lock, error) { return l.Lock(ctx, "a") },
		"TryLock":  func(ctx context.Context, l *redlock.Locker) (*redlock.Lock, error) { return l.TryLock(ctx, "a") },
		"TryRLock": func(ctx context.Context, l *redlock.Locker) (*redlock.Lock, error) { return l.TryRLock(ctx, "a") },
		"TryLockAny": func(ctx context.Context, l *redlock.Locker) (*redlock.Lock, error) {
			return l.TryLockAny(ctx, []string{"a"})
		},
	} {
		whileOneIsRemoved(t, name, func(c *cluster, l *redlock.Locker, lose, remove func()) {
			lose()
			ended := c.Ending(func() error { _, err := call(c.Within(4*time.Second), l); return err })
			time.Sleep(time.Second)
			remove()
			assert.NoError(c.T, <-ended)
		})
	}
	whileOneIsRemoved(t, "Verify", func(c *cluster, l *redlock.Locker, lose, remove func()) {
		lock := c.Lock(l, "a")
		lose()
		ended := c.Ending(func() error { return lock.Verify(c.Within(2 * time.Second)) })
		time.Sleep(time.Second)
		remove()
		assert.NoError(c.T, <-ended)
	})
	whileOneIsRemoved(t, "Extend", func(c *cluster, l *redlock.Locker, lose, remove func()) {
		lock := c.Lock(l, "a")
		lose()
		ended := c.Ending(func() error { return lock.Extend(c.Within(2*time.Second), 9*time.Second) })
		time.Sleep(time.Second)
		remove()
		assert.NoError(c.T, <-ended)
	})
}
