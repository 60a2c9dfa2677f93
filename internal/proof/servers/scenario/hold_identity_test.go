package scenario_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// misfit is an endpoint that may not vote, and the reason.
type misfit struct {
	name  string
	words string // of the reason
	down  bool   // the node is refused; else it is only not asked
	url   func(t *testing.T, first cluster.Master) string
}

var misfits = []misfit{
	{"a replica", "a replica of " + redistest.Host() + ":", true, func(t *testing.T, _ cluster.Master) string {
		replica := redistest.StartOne(t)
		replicate(t, replica, redistest.StartOne(t, redistest.WithArgs("--repl-diskless-sync-delay", "0")))
		return replica.URL()
	}},
	{"in cluster mode", "in cluster mode", true, func(t *testing.T, _ cluster.Master) string {
		return redistest.StartOne(t, redistest.WithArgs("--cluster-enabled", "yes")).URL()
	}},
	{"the same server twice", "the same server as redis://" + redistest.Host() + ":", false, func(_ *testing.T, first cluster.Master) string {
		return redistest.OtherName(first.URL())
	}},
}

// Stats, Ready and errors name servers that may not vote. Such servers do no harm as long as the
// others are a majority.
func TestHoldingTakesAMajorityOfServersThatMayVote(t *testing.T) {
	t.Parallel()
	for _, m := range misfits {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			c := cluster.Start(t, 2)
			wrong := m.url(t, c.Masters[0])
			l := cluster.NewLocker(t, append(c.URLs(), wrong), redlock.WithTTL(longTTL), redlock.WithNodeTimeout(patience))
			requireBarred(t, l, m)
			require.NoError(t, l.Ready(t.Context()))
			lock, err := l.TryLock(t.Context(), cluster.LockName(t))
			require.NoError(t, err)
			require.NoError(t, lock.Extend(t.Context(), longTTL))
			require.NoError(t, lock.Verify(t.Context()))
			assert.Equal(t, 2, c.Holding(t, cluster.LockName(t), lock.Value()))
			require.NoError(t, lock.Unlock(t.Context()))
			cluster.RequireClean(t, c.Masters...)

			must(t, c.Masters[1].Kill())
			cluster.Eventually(t, 2*slack, func() string {
				if l.Stats().Nodes[1].State != pool.Down {
					return "the second master is known to be away"
				}
				return ""
			})
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			_, acquire := l.TryLock(t.Context(), cluster.LockName(t))
			for op, err := range map[string]error{"ready": l.Ready(ctx), "acquire": acquire} {
				t.Logf("%s: %v", op, err)
				require.ErrorIs(t, err, redlock.ErrNoQuorum, op)
				said := strings.ReplaceAll(m.words, "as redis://"+redistest.Host()+":", "as ")
				assert.Equal(t, []string{wrong}, nodesThatSay(t, err, said), op)
				require.ErrorIs(t, err, pool.ErrRefused, op)
			}
			cluster.RequireClean(t, c.Masters[0])
		})
	}
}

// requireBarred waits until the third node is known not to vote, and asserts what Stats says.
func requireBarred(t *testing.T, l *redlock.Locker, m misfit) {
	t.Helper()
	cluster.Eventually(t, 20*time.Second, func() string {
		nodes := l.Stats().Nodes
		node := nodes[2]
		if nodes[0].State != pool.Up || nodes[1].State != pool.Up {
			return "the others are up"
		}
		switch {
		case m.down && node.State == pool.Down && node.Err != nil:
			return missingWords(node.Err.Error(), m.words)
		case !m.down && node.State == pool.Up && node.Barred != nil:
			return missingWords(node.Barred.Error(), m.words)
		}
		return "it may not vote"
	})
	for i, node := range l.Stats().Nodes[:2] {
		assert.NoError(t, node.Barred, i)
		assert.False(t, node.Unidentified, i)
		assert.NotEmpty(t, node.RunID, i)
	}
}

func missingWords(text, words string) string {
	if strings.Contains(text, words) {
		return ""
	}
	return words + ", there is: " + text
}
