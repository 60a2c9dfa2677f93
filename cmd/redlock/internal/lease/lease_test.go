package lease_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/cmd/redlock/internal/lease"
	"github.com/redquorum/redquorum/internal/proof/virtual"
	"github.com/redquorum/redquorum/redlock"
)

func TestMain(m *testing.M) { virtual.OneProcessor(m) }

// fleet runs a test on three masters and two servers.
func fleet(t *testing.T, test func(t *testing.T, c *virtual.Cluster, a, b *lease.Leases)) {
	t.Helper()
	virtual.InBubble(t, 3, func(t *testing.T, c *virtual.Cluster) {
		test(t, c, lease.New(c.Locker()), lease.New(c.Locker()))
	})
}

func ask(name, token string) lease.Request {
	return lease.Request{Name: name, Token: token, TTL: 10 * time.Second, Owner: "worker 3", Door: "resp", From: "[fe80::1%eth0]:51334"}
}

func held(t *testing.T, l *lease.Leases, name string) lease.Holder {
	t.Helper()
	holder, known, err := l.Look(t.Context(), name)
	require.NoError(t, err)
	require.True(t, known)
	return holder
}

func TestAnyServerExtendsAndReleasesWhatAnotherOneGranted(t *testing.T) {
	fleet(t, func(t *testing.T, c *virtual.Cluster, a, b *lease.Leases) {
		grant, err := a.Acquire(t.Context(), ask("n", "T\x00;token=|"))
		require.NoError(t, err)
		assert.Equal(t, 10*time.Second, grant.Valid)

		_, err = b.Acquire(t.Context(), ask("n", "U"))
		require.ErrorIs(t, err, redlock.ErrTaken)
		var taken *lease.TakenError
		require.ErrorAs(t, err, &taken)
		assert.Equal(t, "T\x00;token=|", taken.Holder.Token)
		assert.Equal(t, "worker 3", taken.Holder.Owner)
		assert.Equal(t, "resp", taken.Holder.Door)
		assert.Equal(t, "[fe80::1%eth0]:51334", taken.Holder.From)

		time.Sleep(9 * time.Second)
		valid, err := b.Extend(t.Context(), "n", grant.Token, 10*time.Second)
		require.NoError(t, err)
		assert.Equal(t, 10*time.Second, valid)
		time.Sleep(9 * time.Second) // past the end of what a granted: its handle is no lock any more
		holder := held(t, a, "n")
		assert.Equal(t, 18*time.Second, holder.Held.Truncate(time.Millisecond))
		assert.GreaterOrEqual(t, holder.Remaining, 999*time.Millisecond)
		assert.Less(t, holder.Remaining, 2*time.Second)

		_, err = b.Extend(t.Context(), "n", "U", 10*time.Second)
		require.ErrorIs(t, err, redlock.ErrLost)
		require.ErrorIs(t, b.Release(t.Context(), "n", "U"), redlock.ErrLost)
		require.NoError(t, b.Release(t.Context(), "n", grant.Token))
		c.Free("n")
		require.ErrorIs(t, a.Release(t.Context(), "n", grant.Token), redlock.ErrLost, "also where it was granted")
		_, err = a.Extend(t.Context(), "n", grant.Token, 10*time.Second)
		require.ErrorIs(t, err, redlock.ErrLost)
		c.Free("n")
	})
}

func TestTheWholeTTLIsLeftAtTheReply(t *testing.T) {
	fleet(t, func(t *testing.T, c *virtual.Cluster, a, b *lease.Leases) {
		c.Slow(100 * time.Millisecond)
		for _, ttl := range []time.Duration{3 * time.Second, 50 * time.Second} {
			_, err := a.Acquire(t.Context(), lease.Request{Name: "n", TTL: ttl})
			require.NoError(t, err)
			time.Sleep(ttl - 50*time.Millisecond) // it arrives at the end
			_, err = b.Acquire(t.Context(), lease.Request{Name: "n", TTL: ttl})
			require.ErrorIs(t, err, redlock.ErrTaken)
			time.Sleep(5 * time.Second)
		}
		_, err := a.Acquire(t.Context(), lease.Request{Name: "n", TTL: time.Second})
		require.ErrorIs(t, err, redlock.ErrNoQuorum, "a node timeout of a twentieth of it is less than a round trip")
	})
}

func TestAnExtensionThatIsNotConfirmedLeavesTheLeaseAsItWas(t *testing.T) {
	fleet(t, func(t *testing.T, c *virtual.Cluster, a, b *lease.Leases) {
		grant, err := a.Acquire(t.Context(), ask("n", "T"))
		require.NoError(t, err)
		c.Each(virtual.Deafen, 0, 1) // they run what they are sent, and nobody hears of it
		for _, l := range []*lease.Leases{a, b} {
			_, err = l.Extend(t.Context(), "n", "T", 20*time.Second)
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
			require.NotErrorIs(t, err, redlock.ErrLost)
		}
		require.ErrorIs(t, b.Release(t.Context(), "n", "T"), redlock.ErrNoQuorum)
		c.Each(virtual.Undeaf, 0, 1)
		time.Sleep(3 * time.Second) // they are connected again
		_, err = b.Extend(t.Context(), "n", "T", 20*time.Second)
		require.NoError(t, err, "the client tries again")
		require.NoError(t, b.Release(t.Context(), "n", grant.Token))
		c.Free("n")
	})
}

// A client that shares its token with others, or got it back from a file, has no power over the
// lease that one of them holds beyond what the token gives at that moment.
func TestATokenThatRecursMeansTheLeaseThatHasItNow(t *testing.T) {
	fleet(t, func(t *testing.T, c *virtual.Cluster, a, b *lease.Leases) {
		_, err := a.Acquire(t.Context(), ask("n", "shared"))
		require.NoError(t, err)
		_, err = a.Acquire(t.Context(), ask("n", "shared"))
		require.ErrorIs(t, err, redlock.ErrTaken, "a lease is not reentrant")
		first := c.Holders("n")[0]
		time.Sleep(11 * time.Second) // it ends
		_, err = b.Acquire(t.Context(), ask("n", "shared"))
		require.NoError(t, err)
		assert.NotEqual(t, first, c.Holders("n")[0], "each grant has a value of its own")

		_, err = a.Extend(t.Context(), "n", "shared", 20*time.Second) // a remembers the first
		require.NoError(t, err)
		require.NoError(t, a.Release(t.Context(), "n", "shared"))
		c.Free("n")
	})
}

func TestWhatServersDoAtOnceDoesNotShortenALease(t *testing.T) {
	fleet(t, func(t *testing.T, c *virtual.Cluster, a, b *lease.Leases) {
		_, err := a.Acquire(t.Context(), ask("n", "T"))
		require.NoError(t, err)
		c.Each(virtual.Delaying(2*time.Millisecond, 2*time.Millisecond), 0)
		errs := make(chan error)
		for l, ttl := range map[*lease.Leases]time.Duration{a: 5 * time.Second, b: 30 * time.Second} {
			go func() {
				_, err := l.Extend(context.Background(), "n", "T", ttl)
				errs <- err
			}()
		}
		require.NoError(t, errors.Join(<-errs, <-errs))
		_, err = a.Extend(t.Context(), "n", "T", time.Second)
		require.NoError(t, err, "such a one may have been on its way for long")
		time.Sleep(29 * time.Second)
		_, err = b.Acquire(t.Context(), ask("n", "U"))
		require.ErrorIs(t, err, redlock.ErrTaken)
	})
}

func TestAGrantWhoseClientIsGoneIsGivenBack(t *testing.T) {
	fleet(t, func(t *testing.T, c *virtual.Cluster, a, b *lease.Leases) {
		grant, err := a.Acquire(t.Context(), ask("n", "T"))
		require.NoError(t, err)
		waiting := ask("n", "U")
		waiting.Wait = 5 * time.Second
		ctx, leave := context.WithCancel(t.Context())
		waited := make(chan error)
		go func() {
			_, err := b.Acquire(ctx, waiting)
			waited <- err
		}()
		time.Sleep(time.Second)
		leave()
		require.ErrorIs(t, <-waited, context.Canceled)
		a.GiveBack(grant)
		c.Free("n")

		waiting.Wait = time.Second
		_, err = a.Acquire(t.Context(), ask("n", "T"))
		require.NoError(t, err)
		_, err = b.Acquire(t.Context(), waiting)
		require.ErrorIs(t, err, redlock.ErrTaken)
		go func() {
			time.Sleep(500 * time.Millisecond)
			waited <- a.Release(context.Background(), "n", "T")
		}()
		_, err = b.Acquire(t.Context(), waiting)
		require.NoError(t, err, "the release hands it over")
		require.NoError(t, <-waited)
	})
}

func TestAServerThatEndsTakesNoLeaseWithIt(t *testing.T) {
	fleet(t, func(t *testing.T, c *virtual.Cluster, a, b *lease.Leases) {
		locker := c.Locker()
		_, err := lease.New(locker).Acquire(t.Context(), ask("n", "T"))
		require.NoError(t, err)
		require.NoError(t, locker.Close())
		assert.Equal(t, "T", held(t, a, "n").Token)
		require.NoError(t, b.Release(t.Context(), "n", "T"))
		c.Free("n")
	})
}

func TestAMasterThatIsAwayGetsTheReleaseWhenItIsBack(t *testing.T) {
	fleet(t, func(t *testing.T, c *virtual.Cluster, a, b *lease.Leases) {
		_, err := a.Acquire(t.Context(), ask("n", "T"))
		require.NoError(t, err)
		virtual.Settle()
		c.Each(virtual.Stop, 2)
		require.NoError(t, a.Release(t.Context(), "n", "T"))
		_, err = b.Acquire(t.Context(), ask("n", "U"))
		require.NoError(t, err, "two of three are enough")
		require.NoError(t, b.Release(t.Context(), "n", "U"))
		c.Each(virtual.Resume, 2)
		time.Sleep(3 * time.Second)
		c.Free("n")
	})
}

func TestSeveralNamesAreOneGrantAndEachIsReleasedOnItsOwn(t *testing.T) {
	fleet(t, func(t *testing.T, c *virtual.Cluster, a, b *lease.Leases) {
		both := lease.Request{Names: []string{"m", "n"}, Token: "T", TTL: 10 * time.Second}
		_, err := a.Acquire(t.Context(), both)
		require.NoError(t, err)
		_, err = b.Acquire(t.Context(), lease.Request{Names: []string{"n", "o"}, Token: "U", TTL: 10 * time.Second})
		require.ErrorIs(t, err, redlock.ErrTaken)
		require.NoError(t, b.Release(t.Context(), "m", "T"))
		c.Free("m")
		_, err = b.Extend(t.Context(), "n", "T", 10*time.Second)
		require.NoError(t, err)
		require.NoError(t, a.Release(t.Context(), "n", "T"))
		c.Free("n")
	})
}

func TestTheLockOfAnotherProgramIsNoLease(t *testing.T) {
	virtual.InBubble(t, 3, func(t *testing.T, c *virtual.Cluster) {
		locker := c.Locker()
		l := lease.New(locker)
		lock, err := locker.TryLock(t.Context(), "n", redlock.WithOwner("me"))
		require.NoError(t, err)
		holder := held(t, l, "n")
		assert.Equal(t, lock.Value(), holder.Token)
		assert.Equal(t, "me", holder.Owner)
		assert.False(t, holder.Lease)
		require.ErrorIs(t, l.Release(t.Context(), "n", holder.Token), redlock.ErrLost)
		_, err = l.Extend(t.Context(), "n", "me", time.Second)
		require.ErrorIs(t, err, redlock.ErrLost)
		require.NoError(t, lock.Verify(t.Context()))
	})
}

func TestWhatNobodyCanBeGrantedIsRefusedWithTheWayOut(t *testing.T) {
	fleet(t, func(t *testing.T, c *virtual.Cluster, a, b *lease.Leases) {
		for _, r := range []lease.Request{
			{Name: "n", Token: "T"},
			{Name: "n", Token: "T", TTL: 25 * time.Hour},
			{Name: "n", Token: strings.Repeat("T", lease.MaxToken+1), TTL: time.Second},
			{Name: "", Token: "T", TTL: time.Second},
			{Name: "redquorum:n", Token: "T", TTL: time.Second},
		} {
			_, err := a.Acquire(t.Context(), r)
			require.ErrorIs(t, err, redlock.ErrInvalid)
			require.NotContains(t, err.Error(), "max-ttl", "it would not help")
		}
		_, err := a.Acquire(t.Context(), lease.Request{Name: "n", TTL: time.Minute})
		require.ErrorIs(t, err, redlock.ErrInvalid)
		require.ErrorContains(t, err, "redlock members max-ttl")
		_, err = a.Acquire(t.Context(), ask("n", strings.Repeat("T", lease.MaxToken)))
		require.NoError(t, err)
		_, err = b.Extend(t.Context(), "n", strings.Repeat("T", lease.MaxToken), time.Minute)
		require.ErrorContains(t, err, "redlock members max-ttl")
		_, err = b.Extend(t.Context(), "n", strings.Repeat("T", lease.MaxToken), 0)
		require.ErrorIs(t, err, redlock.ErrInvalid)
	})
}

func TestTooFewMastersKnowNothing(t *testing.T) {
	fleet(t, func(t *testing.T, c *virtual.Cluster, a, b *lease.Leases) {
		_, err := a.Acquire(t.Context(), ask("n", "T"))
		require.NoError(t, err)
		c.Each(virtual.Kill, 0, 1)
		virtual.Settle()
		_, _, err = b.Look(t.Context(), "n")
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		for _, l := range []*lease.Leases{a, b} {
			err = l.Release(t.Context(), "n", "T")
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
			require.NotErrorIs(t, err, redlock.ErrLost)
		}
	})
}
