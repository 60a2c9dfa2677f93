//go:build unix

package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
)

func TestInspectShowsFencesAndWaiters(t *testing.T) {
	t.Parallel()
	_, urls := clitest.StartServers(t, 3)
	holder := clitest.Process(t, urls, "run", "--name", "x", "--fence", "--", "cat")
	stdin, err := holder.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, holder.Start())
	inspect := func() (i inspection) {
		_, stdout, _ := clitest.Run(t, urls, "inspect", "x", "--json")
		require.NoError(t, json.Unmarshal([]byte(stdout), &i))
		return i
	}
	clitest.WaitFor(t, "the lock is held", func() bool { return inspect().Verdict == "held" })
	waiter := clitest.Process(t, urls, "run", "--name", "x", "--fence", "--", "true")
	require.NoError(t, waiter.Start())
	waiting := func() (n int) {
		for _, node := range inspect().Nodes {
			n += node.Waiting
		}
		return n
	}
	clitest.WaitFor(t, "a waiter at one master", func() bool { return waiting() == 1 })
	for _, node := range inspect().Nodes {
		if node.Value != "" {
			assert.InDelta(t, time.Now().UnixMicro(), node.Fence, float64(time.Minute.Microseconds()))
		}
	}
	_, table, _ := clitest.Run(t, urls, "inspect", "x")
	assert.Contains(t, table, "FENCE  ")
	assert.Contains(t, table, "WAITING")
	require.NoError(t, stdin.Close())
	assert.Equal(t, 0, clitest.Await(t, holder))
	assert.Equal(t, 0, clitest.Await(t, waiter))
	assert.Zero(t, waiting())
}

// An empty value keeps everybody out like any other.
func TestInspectShowsAKeyWithAnEmptyValueAsHeld(t *testing.T) {
	t.Parallel()
	servers, urls := clitest.StartServers(t, 3)
	for _, s := range servers[1:] {
		_, err := s.Do("SET", "x", "")
		require.NoError(t, err)
	}
	status, _, _ := clitest.Run(t, urls, "run", "--name", "x", "--no-wait", "true")
	assert.Equal(t, cli.ExitMisnamed, status)
	_, table, _ := clitest.Run(t, urls, "inspect", "x")
	assert.Contains(t, table, `"x" is held by `)
	assert.Contains(t, table, "for ever")
	assert.Contains(t, table, "It does not expire, so it is no lock: use another name or --key-prefix.")
}
