//go:build unix

package main

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCommandsFindGrowingFencesInTheirEnvironment(t *testing.T) {
	t.Parallel()
	_, urls := startServers(t, 3)
	last := int64(0)
	for range 3 {
		status, stdout, stderr := runRedlock(t, urls, "run", "--name", "x", "--fence", "--", "sh", "-c", "echo $REDLOCK_FENCE")
		require.Equal(t, 0, status, stderr)
		fence, err := strconv.ParseInt(strings.TrimSpace(stdout), 10, 64)
		require.NoError(t, err)
		assert.Greater(t, fence, last)
		last = fence
	}
	_, stdout, _ := runRedlock(t, urls, "run", "--name", "x", "--", "sh", "-c", "echo $REDLOCK_FENCE")
	assert.Empty(t, strings.TrimSpace(stdout), "without --fence")
}

func TestInspectShowsFencesAndWhoWaits(t *testing.T) {
	t.Parallel()
	_, urls := startServers(t, 3)
	holder := newRedlock(t, urls, "run", "--name", "x", "--fence", "--", "cat")
	stdin, err := holder.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, holder.Start())
	inspect := func() (i inspection) {
		_, stdout, _ := runRedlock(t, urls, "inspect", "x", "--json")
		require.NoError(t, json.Unmarshal([]byte(stdout), &i))
		return i
	}
	waitFor(t, "the lock is held", func() bool { return inspect().Verdict == "held" })
	waiter := newRedlock(t, urls, "run", "--name", "x", "--fence", "--", "true")
	require.NoError(t, waiter.Start())
	waiting := func() (n int) {
		for _, node := range inspect().Nodes {
			n += node.Waiting
		}
		return n
	}
	waitFor(t, "somebody waits at one master", func() bool { return waiting() == 1 })
	for _, node := range inspect().Nodes {
		if node.Value != "" {
			assert.InDelta(t, time.Now().UnixMicro(), node.Fence, float64(time.Minute.Microseconds()))
		}
	}
	_, table, _ := runRedlock(t, urls, "inspect", "x")
	assert.Contains(t, table, "FENCE  ")
	assert.Contains(t, table, "WAITING")
	require.NoError(t, stdin.Close())
	assert.Equal(t, 0, await(t, holder))
	assert.Equal(t, 0, await(t, waiter))
	assert.Zero(t, waiting())
}
