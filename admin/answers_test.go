package admin

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/election"
	"github.com/redquorum/redquorum/internal/ledger"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
	"github.com/redquorum/redquorum/redlock/redlocktest"
)

func TestANameMayBeAPermit(t *testing.T) {
	for name, want := range map[string]string{
		"s#1": "s 1", "a#2#1024": "a#2 1024", "s#0": " 0", "s#01": " 0", "s#10000": " 0", "#1": " 0", "s": " 0", "a\n#3": "a\n 3",
	} {
		base, slot := permitOf(name)
		assert.Equal(t, want, fmt.Sprint(base, " ", slot), name)
	}
}

func TestMastersOfTwoClustersAreUndecidedWhileNoneVotes(t *testing.T) {
	other := redlock.NodeStats{Stats: pool.Stats{State: pool.Up}, Barred: redlock.ErrOtherCluster}
	votes := redlock.NodeStats{Stats: pool.Stats{State: pool.Up}}
	assert.False(t, areDecided([]redlock.NodeStats{other, other, other}))
	assert.True(t, areDecided([]redlock.NodeStats{votes, votes, other}))
}

func TestTheNewestTermsComeFirst(t *testing.T) {
	o := Operator{}
	o.door.ReadTerms = func(context.Context, string, int64, int) (ledger.Page, error) {
		first, second, third := ledger.Entry{Term: 1, Value: "C"}, ledger.Entry{Term: 3, Value: "A|@990|ann"}, ledger.Entry{Term: 9, Value: "B|~995|bob"}
		return ledger.Page{Answers: []ledger.Answer{{Entries: []ledger.Entry{first, second}}, {}, {Entries: []ledger.Entry{second, third}}}}, nil
	}
	assert.Equal(t, []Term{
		{9, "B|~995|bob", "bob", Since{time.Unix(995, 0), true}}, {3, "A|@990|ann", "ann", Since{time.Unix(990, 0), false}}, {1, "C", "", Since{}},
	}, o.terms(t.Context(), "e"))
}

func TestWhatABoundKeepsFromBeingAskedIsTold(t *testing.T) {
	c := redlocktest.Start(t, 3)
	_, err := c.Locker(t, redlock.WithNodeTimeout(10*time.Second)).TryLock(t.Context(), "x")
	require.NoError(t, err)
	operator := Of(c.Locker(t, redlock.WithNodeTimeout(10*time.Second)))
	ctx, end := context.WithCancelCause(t.Context())
	end(errLarge)
	told, err := operator.AskAll(ctx, []string{"x"}, nil)
	require.ErrorIs(t, err, errLarge)
	require.Len(t, told, 1)
	assert.True(t, told[0].Unasked)
	assert.Equal(t, 3, told[0].Stats.Members)
}

// Permits and elections are locks as well, and a free election is none.
func TestAListHasLocksOfAllKinds(t *testing.T) {
	c := redlocktest.Start(t, 3)
	locker := c.Locker(t, redlock.WithNodeTimeout(10*time.Second))
	semaphore, err := locker.Semaphore("s", 3)
	require.NoError(t, err)
	for range 2 {
		_, err = semaphore.TryAcquire(t.Context())
		require.NoError(t, err)
	}
	_, err = locker.TryLock(t.Context(), "x#7")
	require.NoError(t, err)
	e, err := election.New(locker, "e")
	require.NoError(t, err)
	require.NoError(t, e.Run(t.Context(), func(context.Context, int64) error { return nil }))
	locks, err := Of(locker).List(t.Context(), "*")
	require.NoError(t, err)
	var names []string
	for _, s := range locks {
		names = append(names, s.Name)
		assert.NotEmpty(t, s.Value)
	}
	require.Len(t, names, 3, names)
	assert.Equal(t, "x#7", names[2], "no permit, whatever it looks like")
	assert.Subset(t, []string{"s#1", "s#2", "s#3"}, names[:2])
}

// Two of three have answered long before the third does, about each of many locks.
func TestASlowMasterDoesNotHoldUpAList(t *testing.T) {
	t.Parallel()
	c := redlocktest.Start(t, 3)
	const locks = 2000
	for _, endpoint := range c.Endpoints() {
		conn, err := redis.Dial("tcp", endpoint)
		require.NoError(t, err)
		for i := range locks {
			require.NoError(t, conn.Send("SET", fmt.Sprint("l", i), "v", "PX", 3_600_000))
		}
		_, err = conn.Do("") // all replies
		require.NoError(t, errors.Join(err, conn.Close()))
	}
	operator := Of(c.Locker(t, redlock.WithTTL(20*time.Second), redlock.WithNodeTimeout(10*time.Second)))
	operator.AwaitMembers(t.Context())
	c.Node(2).Delay(time.Second / 2)
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	told, err := operator.List(ctx, "*")
	require.NoError(t, err, "16 s if each group of 64 waits for it")
	require.Len(t, told, locks)
	unanswered := 0
	for i := range told {
		require.Equal(t, "v", told[i].Value)
		if told[i].Nodes[2].Err != nil {
			unanswered++
		}
	}
	assert.Positive(t, unanswered, "what the slow one misses is told")
}
