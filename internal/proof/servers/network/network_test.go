package network_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/redlock"
)

// large is longer than a handshake without its full packet, and shorter than scripts.
const large = "meta length > 1300 drop"

// aMinute bounds every wait for what happens soon on an idle machine.
const aMinute = time.Minute

func TestAClientThatIsCutOffIsToldBeforeAnotherHasItsLock(t *testing.T) {
	for _, f := range []fault{
		{name: "requests lost", requests: "drop"},
		{name: "replies lost", replies: "drop"},
		{name: "half-open", requests: "drop", replies: "drop"},
		{name: "large requests lost", requests: large},
		{name: "reset", requests: "meta l4proto tcp reject with tcp reset"},
	} {
		t.Run(f.name, func(t *testing.T) {
			w := newWorld(t, 3)
			cut, other := cluster.NewConnected(t, w.URLs(), w.client(0)...), cluster.NewConnected(t, w.URLs(), w.client(1)...)
			lock := acquire(t, cut)
			w.hosts[0].begin(t, f, 0)
			w.hosts[1].begin(t, f, 0)
			began, told := time.Now(), make(chan time.Time, 1)
			go func() {
				<-lock.Done()
				told <- time.Now()
			}()
			next := acquire(t, other)
			acquired := time.Now()
			require.ErrorIs(t, lock.Err(), redlock.ErrLost)
			assert.LessOrEqual(t, lock.Remaining(), time.Duration(0))
			toldAt := <-told
			assert.True(t, toldAt.Before(acquired), "told at %v, the other has the lock since %v", toldAt, acquired)
			_, err := cut.TryLock(t.Context(), cluster.LockName(t))
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
			t.Log(err)
			require.NoError(t, next.Unlock(t.Context()))

			w.hosts[0].heal(t)
			w.hosts[1].heal(t)
			healing := time.Now()
			lock = acquire(t, cut)
			t.Logf("told after %v, the other has it after %v, healed after %v", toldAt.Sub(began), acquired.Sub(began), time.Since(healing))
			require.NoError(t, lock.Unlock(t.Context()))
			cluster.RequireClean(t, w.Masters...)
		})
	}
}

func TestAPathThatLosesLargePacketsIsTold(t *testing.T) {
	for _, f := range []fault{{name: "requests", requests: large}, {name: "replies", replies: large}} {
		t.Run(f.name, func(t *testing.T) {
			w := newWorld(t, 3)
			for _, h := range w.hosts {
				h.begin(t, f, 0)
			}
			l := cluster.NewLocker(t, w.URLs(), w.client(0)...)
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			require.ErrorContains(t, l.Ready(ctx), "the network loses large packets")
			for _, h := range w.hosts {
				h.heal(t)
			}
			require.NoError(t, acquire(t, l).Unlock(t.Context()))
		})
	}
}

func TestClientsThatAreCutOffFromDifferentMastersExcludeEachOther(t *testing.T) {
	w := newWorld(t, 3)
	r, a, b := load(t, w, w.URLs())
	w.hosts[0].begin(t, halfOpen, 0)
	w.hosts[2].begin(t, halfOpen, 1)
	r.AwaitEach(t, clients, 5) // one has the first two masters, the other the last two
	w.hosts[1].begin(t, halfOpen, 0, 1)
	for _, l := range []*redlock.Locker{a, b} {
		cluster.Eventually(t, aMinute, func() string {
			if _, err := l.TryLock(t.Context(), "any"); err == nil {
				return "no lock with one master"
			}
			return ""
		})
	}
	time.Sleep(ttl) // what was held has ended
	runs := r.Len()
	time.Sleep(ttl)
	assert.Equal(t, runs, r.Len(), "nobody has a majority")
	healAll(t, w, r)
}

// The client never hears that its connection has ended.
func TestAServerBehindADeadLinkIsFollowedByAnotherOne(t *testing.T) {
	w := newWorld(t, 3)
	r, a, b := load(t, w, w.URLs())
	w.hosts[0].link(t, "down")
	r.AwaitEach(t, clients, 5)
	require.NoError(t, w.Masters[0].Kill())
	w.hosts[0].link(t, "up")
	require.NoError(t, w.Masters[0].Restart())
	r.AwaitEach(t, clients, 5)
	began := time.Now()
	for _, l := range []*redlock.Locker{a, b} {
		cluster.RequireUp(t, l, func(node redlock.NodeStats) bool { return node.Memory == "active" })
	}
	t.Logf("the empty server votes after %v more; MaxTTL is %v", time.Since(began), 2*ttl)
	healAll(t, w, r)
}

func TestALossyNarrowLinkMakesLocksSlowerOnly(t *testing.T) {
	w := newWorld(t, 3)
	r, _, _ := load(t, w, w.URLs())
	const loss = "numgen random mod 100 < 10 drop"
	for _, h := range w.hosts {
		run(t, "", "ip", "netns", "exec", h.name, "tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", "1mbit", "burst", "4kb", "latency", "100ms")
		h.begin(t, fault{requests: loss, replies: loss}, 0, 1)
	}
	r.AwaitEach(t, clients, 10)
	healAll(t, w, r)
}

func TestConnectionsThatAreResetInTheMiddleOfAReplyLoseNoLock(t *testing.T) {
	w := newWorld(t, 3)
	r, _, _ := load(t, w, w.inFront(t, func() *middlebox {
		return &middlebox{resets: func([]byte) bool { return rand.N(20) == 0 }}
	}))
	r.AwaitEach(t, clients, 100)
}

// A proxy that loses its connection to the master, and sends what was not answered again on a new
// one, violates A3 (docs/safety.md). Holders exclude each other, and tokens grow: each write
// compares the value of its attempt.
func TestHoldersExcludeEachOtherBehindAProxyThatSendsAgain(t *testing.T) {
	for _, after := range []time.Duration{0, 100 * time.Millisecond} {
		t.Run(after.String(), func(t *testing.T) {
			w := newWorld(t, 3)
			r, _, _ := load(t, w, w.inFront(t, func() *middlebox {
				return repeating(after, func([]byte) bool { return rand.N(20) == 0 })
			}))
			r.AwaitEach(t, clients, 10)
		})
	}
}

// What a proxy sends again too late: a SET behind the release of its lock, and a short extension
// behind a long one.
func TestWhatAProxyThatSendsAgainTooLateCosts(t *testing.T) {
	const late, short = 300 * time.Millisecond, 1234 * time.Millisecond
	w := newWorld(t, 3)
	key := cluster.LockName(t)
	urls := w.inFront(t, func() *middlebox {
		return repeating(late, func(request []byte) bool {
			return bytes.Contains(request, []byte("SET\r\n")) && bytes.Contains(request, []byte(key)) ||
				bytes.Contains(request, []byte("\r\n1234\r\n"))
		})
	})
	holder, other := cluster.NewConnected(t, urls, w.client(0)...), cluster.NewConnected(t, w.URLs(), w.client(1)...)
	lock := acquire(t, holder)
	value := lock.Value()
	require.NoError(t, lock.Unlock(t.Context()))
	w.AwaitHeldEverywhere(t, key, value) // it has no holder
	began := time.Now()
	next := acquire(t, other)
	t.Logf("a key that nobody holds was in the way for %v", time.Since(began))
	require.NoError(t, next.Unlock(t.Context()))

	lock, err := holder.TryLock(t.Context(), "extended", redlock.WithoutRenewal())
	require.NoError(t, err)
	require.NoError(t, lock.Extend(t.Context(), short))
	require.NoError(t, lock.Extend(t.Context(), 2*ttl))
	next, err = other.Lock(t.Context(), "extended")
	require.NoError(t, err)
	assert.NoError(t, lock.Err(), "the limit in docs/safety.md is none")
	t.Logf("two hold the lock, for %v if the first does not ask", lock.Remaining())
	require.NoError(t, next.Unlock(t.Context()))
}

// The name of a master moves to an empty server while the old one goes on, and a client stays
// connected to that.
func TestANameThatMovesGivesNoMasterTwoVotes(t *testing.T) {
	w := newWorld(t, 3)
	old := w.Masters[0].Addr()
	w.moved.Store(&old)
	urls := append([]string{"redis://" + name}, w.URLs()[1:]...)
	stays := cluster.NewConnected(t, urls, w.client(0, redlock.WithFencing())...)
	moved := w.add(t).master.Addr()
	w.moved.Store(&moved)
	moves := cluster.NewLocker(t, urls, w.client(1, redlock.WithFencing())...)
	r, _ := cluster.Load(t, ttl, stays, moves)
	r.AwaitEach(t, clients, 5)
	began := time.Now()
	cluster.RequireUp(t, moves, func(node redlock.NodeStats) bool { return node.Memory == "active" })
	t.Logf("the new server votes after %v more; MaxTTL is %v", time.Since(began), 2*ttl)
	// By the endpoints alone, each could reach two of three now. But the others know that the
	// member of this name began a new life (S41).
	w.hosts[2].begin(t, halfOpen, 0)
	w.hosts[1].begin(t, halfOpen, 1)
	time.Sleep(2 * ttl)
	_, err := stays.TryLock(t.Context(), "any")
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	t.Log(err)
	require.NoError(t, acquire(t, moves).Unlock(t.Context()))
	healAll(t, w, r)
}

var halfOpen = fault{requests: "drop", replies: "drop"}

// repeating returns a middlebox that sends again what is so.
func repeating(after time.Duration, so func(request []byte) bool) *middlebox {
	return &middlebox{repeats: func(request []byte) time.Duration {
		if so(request) {
			return after
		}
		return -1
	}}
}

// inFront returns the endpoints of a middlebox in front of each master.
func (w *world) inFront(t *testing.T, box func() *middlebox) (urls []string) {
	t.Helper()
	for _, h := range w.hosts {
		urls = append(urls, h.inFront(t, box()))
	}
	return urls
}

// load has two clients use one lock, with tokens, until the test ends. It requires then that they
// excluded each other.
func load(t *testing.T, w *world, urls []string) (r *cluster.Runs, a, b *redlock.Locker) {
	t.Helper()
	a = cluster.NewLocker(t, urls, w.client(0, redlock.WithFencing())...)
	b = cluster.NewLocker(t, urls, w.client(1, redlock.WithFencing())...)
	r, stop := cluster.Load(t, ttl, a, b)
	t.Cleanup(func() { t.Logf("%d runs, nobody had the lock for %v at most", r.Len(), stop()) })
	r.AwaitEach(t, clients, 1)
	return r, a, b
}

// healAll ends all faults, and waits until both clients have the lock again.
func healAll(t *testing.T, w *world, r *cluster.Runs) {
	t.Helper()
	for _, h := range w.hosts {
		h.heal(t)
	}
	began := time.Now()
	r.AwaitEach(t, clients, 5)
	t.Logf("healed after %v", time.Since(began))
}

// acquire waits for the lock of the test.
func acquire(t *testing.T, l *redlock.Locker) *redlock.Lock {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), aMinute)
	defer cancel()
	lock, err := l.Lock(ctx, cluster.LockName(t))
	require.NoError(t, err)
	return lock
}
