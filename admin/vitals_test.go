package admin

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/clock/clocktest"
	"github.com/redquorum/redquorum/internal/ask"
	"github.com/redquorum/redquorum/internal/fakeredis"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

// masterAt returns a master that is asked there.
func masterAt(t *testing.T, url string) ask.Master {
	t.Helper()
	node, err := pipeline.NewNode(url)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, node.Close()) })
	return ask.Master{Node: node, Clock: clock.System(), Patience: 10 * ask.Patience}
}

func TestAPrefixIsNoPattern(t *testing.T) {
	t.Parallel()
	server := redistest.StartOne(t)
	for _, key := range []string{"a*[b]?:x", `\:x`, "aab:x", "redquorum:wait:x", "x", "a*[b]?:"} {
		_, err := server.Do("SET", key, "1", "PX", 60_000)
		require.NoError(t, err)
	}
	m := masterAt(t, server.URL())
	for prefix, want := range map[string][]string{
		"a*[b]?:": {"x"}, `\:`: {"x"}, "aab:": {"x"}, "none:": nil, "redquorum:wait:": nil,
	} {
		found := scan(t.Context(), m, prefix, &Query{Pattern: "*", Keys: 1000, Locks: 10})
		require.NoError(t, found.Err)
		assert.False(t, found.Bounded)
		assert.Equal(t, want, found.Names, prefix)
	}
	found := scan(t.Context(), m, "", &Query{Pattern: "*", Keys: 1000, Locks: 10})
	assert.ElementsMatch(t, []string{"a*[b]?:x", `\:x`, "aab:x", "x", "a*[b]?:"}, found.Names)
}

func TestVitalsAreThoseOfInfo(t *testing.T) {
	t.Parallel()
	server := redistest.StartOne(t)
	for _, database := range []string{"0", "3"} {
		_, err := server.Do("EVAL", "redis.call('SELECT', ARGV[1]) return redis.call('SET', 'x', 'y')", 0, database)
		require.NoError(t, err)
	}
	_, err := server.Do("ACL", redis.Args{"SETUSER", "poor", "on", ">poverty", "~*", "+@all", "-info", "-ping"}...)
	require.NoError(t, err)
	v := vitalsOf(t.Context(), masterAt(t, server.URL()))
	require.NoError(t, v.Err)
	assert.Positive(t, v.RoundTrip)
	assert.Equal(t, int64(2), v.Keys, "in two databases")
	assert.Positive(t, v.Clients, "itself")
	assert.GreaterOrEqual(t, v.Commands, int64(0))
	assert.Positive(t, v.Memory)
	assert.Zero(t, v.MaxMemory, "no limit")
	assert.True(t, v.HasClock)
	assert.Less(t, v.Clock.Abs(), time.Minute, "the same machine")
	v = vitalsOf(t.Context(), masterAt(t, "redis://poor:poverty@"+server.Addr()))
	require.NoError(t, v.Err)
	assert.Positive(t, v.RoundTrip, "a refusal is an answer")
	assert.Equal(t, []int64{-1, -1, -1, -1}, []int64{v.Keys, v.Clients, v.Commands, v.Memory})
	require.NoError(t, server.Kill())
	m := masterAt(t, server.URL())
	require.Error(t, vitalsOf(t.Context(), m).Err)
	require.Error(t, scan(t.Context(), m, "", &Query{Pattern: "*", Keys: 1, Locks: 1}).Err)
}

func TestVitalsTellHowFarAClockIsAhead(t *testing.T) {
	for _, ahead := range []time.Duration{time.Hour, -time.Hour} {
		fakeredis.InBubble(t, 1, func(t *testing.T, clk *clocktest.Clock, nodes fakeredis.Cluster) {
			nodes[0].SetClock(ahead, 1)
			node, err := pipeline.NewNode(nodes.Endpoints()[0], pipeline.WithClock(clk), pipeline.WithDialer(nodes.Dial))
			require.NoError(t, err)
			defer node.Close()
			v := vitalsOf(t.Context(), ask.Master{Node: node, Clock: clk, Patience: ask.Patience})
			require.NoError(t, v.Err)
			assert.True(t, v.HasClock)
			assert.InDelta(t, ahead, v.Clock, float64(time.Second))
		})
	}
}

func TestFieldsOfInfo(t *testing.T) {
	info := map[string]string{}
	for _, reply := range []string{
		"# Stats\r\ninstantaneous_ops_per_sec:12\r\nother:x\r\n", "# Keyspace\r\ndb0:keys=3,expires=1,avg_ttl=0\r\ndb12:keys=4,expires=0\r\n",
	} {
		ask.Fields([]byte(reply), info)
	}
	assert.Equal(t, []int64{12, -1, -1, 7}, []int64{
		number(info, "instantaneous_ops_per_sec"), number(info, "other"), number(info, "none"), keysIn(info),
	})
	assert.Zero(t, keysIn(nil))
}

// A connection takes replies up to 1 MiB, and a name may have 4,096 bytes.
func TestLocksWithLongNamesAreListed(t *testing.T) {
	t.Parallel()
	server := redistest.StartOne(t)
	const locks = 600
	for i := range locks {
		_, err := server.Do("SET", fmt.Sprintf("%04d", i)+strings.Repeat("x", 4092), "1", "PX", 600_000)
		require.NoError(t, err)
	}
	found := scan(t.Context(), masterAt(t, server.URL()), "", &Query{Pattern: "*", Keys: 100_000, Locks: 20_000})
	require.NoError(t, found.Err)
	assert.Len(t, found.Names, locks)
}
