package demo

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

func TestWrongFlagsAreUsageErrorsThatNameTheFlagAndShowNoPassword(t *testing.T) {
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"--workers", "0"}, "--workers: 0 is not between 2 and 16"},
		{[]string{"--workers", "1"}, "--workers: 1 is not"},
		{[]string{"--workers", "-3"}, "--workers: -3"},
		{[]string{"--workers", "17"}, "--workers: 17"},
		{[]string{"--workers", "many"}, `"--workers"`},
		{[]string{"--duration", "2999ms"}, "--duration: 2.999s is not between 3s and 1m0s"},
		{[]string{"--duration", "61s"}, "--duration: 1m1s"},
		{[]string{"--duration", "10"}, `--duration: "10" is no duration`},
		{[]string{"--nodes", ""}, "--nodes: endpoint 1 of 1 is empty"},
		{[]string{"--nodes", "a:1,,b:2"}, "--nodes: endpoint 2 of 3 is empty"},
		{[]string{"--nodes", "a:1,b:x"}, "--nodes: endpoint 2: "},
		{[]string{"--nodes", "a:1", "--nodes", "a:1"}, "--nodes: endpoints 1 and 2 are the same server"},
		{[]string{"--node", "a:1"}, "unknown flag: --node"},
		{[]string{"a:1"}, "demo takes no arguments"},
		{[]string{"--nodes", "redis://:secret@"}, "--nodes: "},
		{[]string{"--nodes", "redis://user:secret@host:port"}, "--nodes: "},
		{[]string{"--nodes", `redis://:"secret@host:1`}, "--nodes: "},
		{[]string{"--nodes", "redis://:sec,ret@host:1"}, "--nodes: "},
		{[]string{"--nodes", "http://:secret@host"}, "--nodes: "},
		{[]string{"--nodes", "redis://:secret@h:1,redis://:secret@h:1"}, "--nodes: endpoints 1 and 2"},
		{[]string{"--node", "redis://:secret@host:1"}, "unknown flag"},
		{[]string{"redis://:secret@host:1"}, "demo takes no arguments"},
	} {
		status, stdout, stderr := clitest.Line(clitest.Root(NewCommand()), append([]string{"demo"}, c.args...)...)
		assert.Equal(t, cli.ExitUsage, status, c.args)
		assert.Empty(t, stdout, c.args)
		assert.Contains(t, stderr, c.says)
		assert.Contains(t, stderr, "redlock demo --help")
		assert.NotContains(t, stderr, "sec", c.args)
	}
}

func TestTwoNodesAreGoneAtOnceAndBackBeforeTheHolderIsStopped(t *testing.T) {
	cfg := config{duration: minDuration}
	plan := planOutage(cfg.duration)
	var up []int
	for _, p := range splitPhases(plan, cfg.duration, embeddedNodes) {
		up = append(up, p.up)
		assert.GreaterOrEqual(t, p.to-p.from, 50*time.Millisecond, "%d nodes are up", p.up)
	}
	assert.Equal(t, []int{5, 4, 3, 4, 5}, up)
	assert.Greater(t, cfg.stopAt(), plan[len(plan)-1].at)
	assert.GreaterOrEqual(t, cfg.ttl(), minTTL)
}

// Otherwise waiters poll for a lock that is handed to them in good time.
func TestPollsComeAfterATurnOfAllWorkers(t *testing.T) {
	for _, workers := range []int{minWorkers, 6, maxWorkers} {
		for _, duration := range []time.Duration{minDuration, 10 * time.Second, maxDuration} {
			cfg := config{duration: duration, workers: workers}
			_, longestHold := cfg.holds()
			shortest, longest := cfg.retry()
			// The pause is in the upper half.
			assert.GreaterOrEqual(t, shortest/2, time.Duration(workers-1)*longestHold*3/4, "%+v", cfg)
			assert.LessOrEqual(t, longest, time.Minute, "what WithRetry takes")
			assert.LessOrEqual(t, shortest, longest)
		}
	}
}

func TestUnpluggedCableEndsItsConnections(t *testing.T) {
	listener, err := redistest.Listen()
	require.NoError(t, err)
	defer listener.Close()
	c := newCable()
	dial := func() (net.Conn, error) { return c.dial(t.Context(), "tcp", listener.Addr().String()) }
	first, err := dial()
	require.NoError(t, err)
	c.unplug()
	_, err = first.Read(make([]byte, 1))
	require.ErrorIs(t, err, net.ErrClosed)
	_, err = dial()
	require.ErrorIs(t, err, errUnplugged)
	c.plug()
	second, err := dial()
	require.NoError(t, err)
	assert.Len(t, c.conns, 1)
	require.NoError(t, second.Close())
	assert.Empty(t, c.conns)
}

func TestStoreRejectsTokensBelowTheLargest(t *testing.T) {
	s := &store{}
	for i, c := range []struct {
		token, seen int64
		passed      bool
	}{
		{10, 0, true},
		{10, 10, true}, // the same holder again
		{12, 10, true},
		{11, 12, false},
		{10, 12, false},
		{12, 12, true}, // rejected writes leave no trace
	} {
		seen, passed := s.write(c.token)
		assert.Equal(t, c.seen, seen, "write %d", i+1)
		assert.Equal(t, c.passed, passed, "write %d", i+1)
	}
	assert.True(t, s.ahead(11))
	assert.False(t, s.ahead(12))
}
