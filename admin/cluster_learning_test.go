package admin_test

import (
	"context"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/internal/proof/virtual"
	"github.com/redquorum/redquorum/redlock"
)

// untilAVoteOfNobodyCounts ends the context of a call at a moment at which the client knows that
// masters were told another list, and does not know that list yet: two of four members, whose votes
// are in, do not count. A third one answers late, and the other one refuses and is removed.
func untilAVoteOfNobodyCounts(t *testing.T, call func(context.Context, *redlock.Locker, *redlock.Lock) error, then func(*cluster, *redlock.Lock, error)) {
	t.Helper()
	inCluster(t, 4, 0, func(t *testing.T, c *cluster) {
		all := []int{0, 1, 2, 3}
		var late atomic.Bool
		dialer := redlock.WithPool(pipeline.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := c.Servers.Dial(ctx, network, address)
			if address == c.Servers.Endpoints()[2] && err == nil {
				return tardyConn{conn, &late}, nil
			}
			return conn, err
		}))
		operator := c.Among(all)
		l := c.Among(all, dialer, redlock.WithTTL(9*time.Second), redlock.WithNodeTimeout(5*time.Second))
		time.Sleep(2 * virtual.MaxTTL)
		lock := c.Lock(l, "held")
		time.Sleep(time.Second)
		c.Slow(200 * time.Millisecond)
		late.Store(true)
		c.Set("a", "of another client", time.Minute, 3)
		c.Set("held", "of another client", time.Minute, 3)
		live, cancel := context.WithCancel(ctx)
		defer cancel()
		ended := c.Ending(func() error { return call(live, l, lock) })
		c.Calls.Go(func() { c.change(operator, remove(3)) })
		time.Sleep(300 * time.Millisecond)
		for began := time.Now(); live.Err() == nil; time.Sleep(time.Millisecond) {
			require.Less(t, time.Since(began), 4*time.Second, "that moment never comes")
			if time.Since(began)%(30*time.Millisecond) < time.Millisecond { // calls by which the client notices
				c.Calls.Go(func() {
					if other, err := l.TryLock(c.Within(time.Second), "b"); err == nil {
						assert.NoError(t, other.Unlock(ctx))
					}
				})
			}
			if s := l.Stats(); s.Members == 4 && s.Nodes[0].Barred != nil && s.Nodes[1].Barred != nil {
				cancel()
			}
		}
		then(c, lock, <-ended)
		time.Sleep(6 * time.Second) // for what is still on its way
	})
}

// tardyConn sends what is written 3.4 s later.
type tardyConn struct {
	net.Conn
	late *atomic.Bool
}

func (l tardyConn) Write(p []byte) (int, error) {
	if !l.late.Load() {
		return l.Conn.Write(p)
	}
	sent := slices.Clone(p)
	time.AfterFunc(3400*time.Millisecond, func() { _, _ = l.Conn.Write(sent) }) //nolint:errcheck // the connection may have ended
	return len(p), nil
}

// The votes that are in count again by the list that is being learned.
func TestAnExtensionCountsWhoseContextEndsWhileAListIsLearned(t *testing.T) {
	untilAVoteOfNobodyCounts(t, func(ctx context.Context, _ *redlock.Locker, lock *redlock.Lock) error {
		return lock.Extend(ctx, 9*time.Second)
	}, func(c *cluster, lock *redlock.Lock, err error) {
		assert.ErrorIs(c.T, err, context.Canceled)
		time.Sleep(4 * time.Second)
		assert.Greater(c.T, lock.Remaining(), 3*time.Second)
	})
}

func TestACallWhoseContextEndsWhileAListIsLearnedSaysSo(t *testing.T) {
	for name, call := range map[string]func(context.Context, *redlock.Locker, *redlock.Lock) error{
		"TryLock": func(ctx context.Context, l *redlock.Locker, _ *redlock.Lock) error {
			_, err := l.TryLock(ctx, "a")
			return err
		},
		"TryLockAny": func(ctx context.Context, l *redlock.Locker, _ *redlock.Lock) error {
			_, err := l.TryLockAny(ctx, []string{"a"})
			return err
		},
		"Verify": func(ctx context.Context, _ *redlock.Locker, lock *redlock.Lock) error { return lock.Verify(ctx) },
		"Adopt": func(ctx context.Context, l *redlock.Locker, lock *redlock.Lock) error {
			_, err := l.Adopt(ctx, "held", lock.Value())
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			untilAVoteOfNobodyCounts(t, call, func(c *cluster, _ *redlock.Lock, err error) {
				assert.ErrorIs(c.T, err, context.Canceled)
			})
		})
	}
}
