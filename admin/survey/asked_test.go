package survey

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/election"
	"github.com/redquorum/redquorum/redlock"
	"github.com/redquorum/redquorum/redlock/redlocktest"
)

// operatorOf looks at the masters of a test.
func operatorOf(t *testing.T, c *redlocktest.Cluster, timeout time.Duration) *admin.Operator {
	t.Helper()
	operator, err := admin.New(c.Endpoints(), admin.OnlyLooks(), redlock.WithTTL(timeout), redlock.WithNodeTimeout(timeout))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, operator.Close()) })
	operator.AwaitMembers(t.Context())
	return operator
}

// inspect says what the masters tell about names.
func inspect(t *testing.T, operator *admin.Operator, names []string, maySemaphore func(name string) bool) (all []Inspection) {
	t.Helper()
	told, err := operator.AskAll(t.Context(), names, maySemaphore)
	require.NoError(t, err)
	for i := range told {
		all = append(all, InspectionOf(&told[i]))
	}
	return all
}

// list says what the masters tell about all locks.
func list(t *testing.T, operator *admin.Operator, q admin.Query) Listing {
	t.Helper()
	told, err := operator.Scan(t.Context(), q)
	require.NoError(t, err)
	return ListingOf(&told, "")
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

	operator := operatorOf(t, c, 10*time.Second)
	told := inspect(t, operator, []string{"x", "s", "none", "redquorum:x", "x"}, func(name string) bool { return name == "s" })
	require.Len(t, told, 3, "each once, and not what is no name of a lock")
	assert.Equal(t, []string{"none", "s", "x"}, []string{told[0].Name, told[1].Name, told[2].Name})
	assert.Equal(t, []string{"free", "held", "held"}, []string{told[0].State(), told[1].State(), told[2].State()})
	assert.Equal(t, KindSemaphore, told[1].Kind)
	assert.Equal(t, "me", told[2].Owner)

	listed := list(t, operator, admin.Query{})
	require.Len(t, listed.Locks, 2)
	require.Len(t, listed.Idle, 1, "nobody leads")
	assert.Equal(t, "e", listed.Idle[0].Name)
	assert.Len(t, listed.Idle[0].Terms, 1)
}

// The record of its term lives on, and the counter of the token has expired.
func TestALeaderOfHoursIsALeader(t *testing.T) {
	c := redlocktest.Start(t, 3)
	locker := c.Locker(t, redlock.WithNodeTimeout(10*time.Second))
	e, err := election.New(locker, "e")
	require.NoError(t, err)
	led, ended := make(chan struct{}), make(chan struct{})
	ctx, resign := context.WithCancel(t.Context())
	go func() {
		defer close(ended)
		_ = e.Run(ctx, func(ctx context.Context, _ int64) error { //nolint:errcheck // it is cancelled
			close(led)
			<-ctx.Done()
			return nil
		})
	}()
	<-led
	for _, endpoint := range c.Endpoints() {
		conn, err := redis.Dial("tcp", endpoint)
		require.NoError(t, err)
		_, err = conn.Do("DEL", "redquorum:fence:e")
		require.NoError(t, errors.Join(err, conn.Close()))
	}
	operator := operatorOf(t, c, 10*time.Second)
	listed := list(t, operator, admin.Query{})
	require.Len(t, listed.Locks, 1)
	alone := inspect(t, operator, []string{"e"}, func(string) bool { return false })
	for _, in := range append(alone, listed.Locks[0]) {
		assert.Equal(t, KindElection, in.Kind)
		assert.Positive(t, in.Term)
		assert.Equal(t, in.Term, in.Token())
	}
	resign()
	<-ended
}

// A Locker may learn of a master between two questions.
func TestAnswersOfMoreMastersThanBeforeAreTakenTogether(t *testing.T) {
	nodes := make([]admin.NodeStatus, 4)
	more := make([]admin.SemaphoreNodeStatus, 4)
	for i := range nodes {
		nodes[i].Endpoint = string(rune('a' + i))
		more[3-i] = admin.SemaphoreNodeStatus{Endpoint: nodes[i].Endpoint, Waiting: i, Waiters: []string{nodes[i].Endpoint}}
	}
	for known := range 5 {
		in := InspectionOf(&admin.Answers{
			Status:    admin.Status{Name: "s", Nodes: nodes[:known], Quorum: 3, Free: true},
			Semaphore: admin.SemaphoreStatus{Name: "s", Permits: 1, Slots: []admin.Status{{Name: "s#1", Nodes: nodes, Quorum: 3}}, Nodes: more, Quorum: 3},
			Stats:     &redlock.Stats{Members: 4, Quorum: 3, Nodes: make([]redlock.NodeStats, known/2)},
		})
		require.Len(t, in.Nodes, known)
		for i, n := range in.Nodes {
			assert.Equal(t, []string{n.Endpoint}, n.Waiters)
			assert.Equal(t, i, n.Waiting)
		}
	}
}

// Whoever decides looks at what is there then; and acts on what is there later.
func TestAForcedReleaseTakesWhatWasSeen(t *testing.T) {
	c := redlocktest.Start(t, 3)
	locker, operator := c.Locker(t, redlock.WithNodeTimeout(10*time.Second)), operatorOf(t, c, 10*time.Second)
	look := func(name string) Inspection {
		told, err := operator.Ask(t.Context(), name)
		require.NoError(t, err)
		return InspectionOf(&told)
	}
	force := func(seen *Inspection) (Release, error) {
		return Force(t.Context(), operator, "", seen.Name, seen.Digest, "gone")
	}
	acquire := func(name string) *redlock.Lock {
		lock, err := locker.Lock(t.Context(), name)
		require.NoError(t, err)
		return lock
	}
	read := func(name string) *redlock.Lock {
		lock, err := locker.RLock(t.Context(), name)
		require.NoError(t, err)
		return lock
	}
	var changed *ChangedError

	free := look("x")
	first := acquire("x")
	_, err := force(&free)
	require.ErrorAs(t, err, &changed, "it was free")
	seen := look("x")
	require.NoError(t, first.Unlock(t.Context()))
	for look("x").Digest == seen.Digest { // two masters are enough for Unlock
		time.Sleep(time.Millisecond)
	}
	_, err = force(&seen)
	require.ErrorAs(t, err, &changed, "it is free by now")
	assert.Equal(t, "free", changed.Now.Verdict)
	second := acquire("x")
	_, err = force(&seen)
	require.ErrorAs(t, err, &changed)
	assert.Equal(t, second.Value(), changed.Now.Value)
	require.NoError(t, second.Verify(t.Context()))
	seen = look("x")
	r, err := force(&seen)
	require.NoError(t, err)
	assert.Equal(t, second.Value(), r.Value)
	require.ErrorIs(t, second.Verify(t.Context()), redlock.ErrLost)

	reader := read("shared")
	seen = look("shared")
	assert.Equal(t, seen.Digest, look("shared").Digest)
	other := read("shared")
	_, err = force(&seen)
	require.ErrorAs(t, err, &changed, "one that was not seen reads, too")
	seen = look("shared")
	_, err = force(&seen)
	require.NoError(t, err)
	for _, lock := range []*redlock.Lock{reader, other} {
		require.ErrorIs(t, lock.Verify(t.Context()), redlock.ErrLost)
	}

	s, err := locker.Semaphore("s", 1)
	require.NoError(t, err)
	permit, err := s.TryAcquire(t.Context())
	require.NoError(t, err)
	all := look("s")
	assert.Equal(t, all.Permits[0].Digest(), func() string { p := look("s#1"); return p.Digest }(), "as top shows it, and as the page does")
	require.NoError(t, permit.Unlock(t.Context()))
	permit, err = s.TryAcquire(t.Context())
	require.NoError(t, err)
	_, err = Force(t.Context(), operator, "", "s#1", all.Permits[0].Digest(), "gone")
	require.ErrorAs(t, err, &changed)
	require.NoError(t, permit.Unlock(t.Context()))
}
