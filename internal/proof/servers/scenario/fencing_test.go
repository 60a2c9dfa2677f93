package scenario_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/fence"
	"github.com/redquorum/redquorum/internal/proof/search"
	"github.com/redquorum/redquorum/internal/proof/servers/child"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/redlock"
)

// skewedClock is a clock whose wall clock is wrong.
type skewedClock struct {
	clock.Clock
	by time.Duration
}

func (s *skewedClock) Wall() time.Time { return s.Clock.Wall().Add(s.by) }

func skewed(by time.Duration) redlock.Option {
	return redlock.WithClock(&skewedClock{clock.System(), by})
}

// fenced locks and unlocks, and returns the token. On a busy machine a lock may expire before it is
// released. Its token counts nevertheless.
func fenced(t *testing.T, l *redlock.Locker, name string) int64 {
	t.Helper()
	bounded, cancel := context.WithTimeout(t.Context(), aMinute)
	defer cancel()
	lock, err := l.Lock(bounded, name, redlock.WithFencing())
	require.NoError(t, err)
	if err := lock.Unlock(t.Context()); !errors.Is(err, redlock.ErrLost) && !errors.Is(err, redlock.ErrNoQuorum) {
		require.NoError(t, err)
	}
	return lock.Fence()
}

// One node, and then all of them, are killed and come back without their counters. Quarantine keeps
// them out for longer than a round takes, even on a busy machine, plus the difference of clocks.
func TestTokensGrowWhenNodesLoseTheirCounters(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 5)
	const maxTTL, skew = 1500 * time.Millisecond, 100 * time.Millisecond
	opts := []redlock.Option{redlock.WithMaxTTL(maxTTL), redlock.WithTTL(maxTTL), redlock.WithNodeTimeout(maxTTL / 2)}
	ahead := cluster.NewConnected(t, c.URLs(), append(opts, skewed(skew))...)
	behind := cluster.NewConnected(t, c.URLs(), append(opts, skewed(-skew))...)
	last := int64(0)
	grow := func() {
		for _, l := range []*redlock.Locker{ahead, behind, ahead, behind} {
			token := fenced(t, l, cluster.LockName(t))
			require.Greater(t, token, last)
			last = token
		}
	}
	rounds := 2
	if search.Soaking() {
		rounds = 10
	}
	for round := range rounds {
		lost := c.Masters
		if round%2 == 0 {
			lost = lost[round/2 : round/2+1]
		}
		grow()
		for _, m := range lost {
			must(t, m.Kill())
		}
		if len(lost) == 1 {
			grow()
		}
		for _, m := range lost {
			must(t, m.Restart())
		}
		for end := time.Now().Add(maxTTL + 500*time.Millisecond); time.Now().Before(end); {
			grow()
			time.Sleep(10 * time.Millisecond)
		}
		grow()
	}
}

// documentedScript returns the script in a section of docs/fencing.md.
func documentedScript(tb require.TestingT, section string) string {
	text, err := os.ReadFile("../../../../docs/fencing.md")
	require.NoError(tb, err)
	_, rest, found := strings.Cut(string(text), "\n## "+section+"\n")
	require.True(tb, found)
	_, rest, found = strings.Cut(rest, "```lua\n")
	require.True(tb, found)
	script, _, found := strings.Cut(rest, "```")
	require.True(tb, found)
	return script
}

// writeFenced writes with the documented script, and reports whether the script did it. Without a
// value, it reads.
func writeFenced(t *testing.T, s *redistest.Server, key string, token int64, value ...any) bool {
	t.Helper()
	_, err := s.Do("EVAL", append([]any{documentedScript(t, "In Redis"), 2, key, "fence:" + key, token}, value...)...)
	if err != nil {
		require.ErrorContains(t, err, "STALE")
	}
	return err == nil
}

func TestDocumentedScriptRefusesOlderTokens(t *testing.T) {
	t.Parallel()
	s := redistest.StartOne(t)
	value := ""
	for _, step := range []struct {
		token int64
		want  bool
	}{
		{0, false}, // of a lock without WithFencing
		{10, true},
		{9, false},
		{10, true},
		{11, true},
		{10, false},
		{1763678400123456, true},
		{1763678400123455, false},
		{1763678400123456, true},
		{1<<53 - 2, true},
		{1<<53 - 1, true},
		{1<<53 - 2, false},
		{1<<53 - 1, true},
	} {
		text := strings.Repeat("x", len(value)+1)
		require.Equal(t, step.want, writeFenced(t, s, "a", step.token, text), step.token)
		if step.want {
			value = text
		}
		assert.Equal(t, value, cluster.Holder(t, s, "a"))
	}
}

// The script for readers and writers decides as the gate does, up to the largest token.
func TestDocumentedScriptOfReadersAndWritersAgreesWithTheGate(t *testing.T) {
	t.Parallel()
	s, script := redistest.StartOne(t), documentedScript(t, "Readers and writers")
	rapid.Check(t, func(t *rapid.T) {
		_, err := s.Do("DEL", "a", "tokens")
		require.NoError(t, err)
		var gate fence.RWGate
		content := any(nil)
		for i := range rapid.IntRange(1, 12).Draw(t, "uses") {
			token := 1<<53 - rapid.Int64Range(1, 6).Draw(t, "below")
			as := rapid.SampledFrom([]string{"reader", "writer"}).Draw(t, "as")
			admit := map[string]func(int64) error{"reader": gate.AdmitRead, "writer": gate.AdmitWrite}[as]
			args := []any{script, 2, "a", "tokens", token, as}
			writes := as == "writer" && rapid.Bool().Draw(t, "writes")
			if writes {
				args = append(args, i)
			}
			reply, err := s.Do("EVAL", args...)
			switch {
			case admit(token) != nil:
				require.ErrorContains(t, err, "STALE")
			case writes:
				require.NoError(t, err)
				content = []byte(strconv.Itoa(i))
			default:
				require.NoError(t, err)
				require.Equal(t, content, reply)
			}
		}
	})
}

// playLateWriter holds a lock. When its input ends, it writes without a look at the lock.
func playLateWriter(self *child.Self) {
	name, store := self.Args[0], self.Args[1]
	l := childLocker(self, self.Args[2:], redlock.WithTTL(time.Second), redlock.WithNodeTimeout(time.Second/2))
	lock, err := l.Lock(ctx, name, redlock.WithFencing())
	require.NoError(self, err)
	conn, err := redis.DialURL(store)
	require.NoError(self, err)
	self.Tell("fence", lock.Fence())
	for range self.Heard() {
	}
	reply, err := conn.Do("EVAL", documentedScript(self, "In Redis"), 2, name, "fence:"+name, lock.Fence(), "late")
	self.Tell("wrote", reply, err)
}

// A holder that was stopped beyond its TTL continues, and writes. The resource refuses the write
// once the next holder has read or written, and not before.
func TestAHolderThatWasStoppedWritesLateAndIsRefused(t *testing.T) {
	t.Parallel()
	c, store := cluster.Start(t, 5), redistest.StartOne(t)
	l := connected(t, c.URLs())
	for what, next := range map[string][]any{"writes": {"next"}, "reads": {}, "does nothing": nil} {
		t.Run("the next one "+what, func(t *testing.T) {
			t.Parallel()
			name := cluster.LockName(t)
			holder := child.Start(t, child.Command("writer", on(c, name, store.URL())...))
			var token int64
			_, err := fmt.Sscanf(holder.Next(t), "fence %d", &token)
			require.NoError(t, err)
			must(t, holder.Stop())
			lock, err := l.Lock(t.Context(), name, redlock.WithFencing()) // when the other's has expired
			require.NoError(t, err)
			require.Greater(t, lock.Fence(), token)
			if next != nil {
				require.True(t, writeFenced(t, store, name, lock.Fence(), next...))
			}
			before := valueIn(t, store, 0, name)
			must(t, holder.CloseInput())
			must(t, holder.Continue())
			if next == nil {
				assert.Equal(t, "wrote OK <nil>", holder.Next(t))
				require.True(t, writeFenced(t, store, name, lock.Fence(), "next"), "the order of tokens")
			} else {
				assert.Contains(t, holder.Next(t), "STALE a newer token has been seen")
				assert.Equal(t, before, valueIn(t, store, 0, name), "what was read is still true")
			}
			give(t, lock)
		})
	}
}
