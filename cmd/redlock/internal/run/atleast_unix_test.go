//go:build unix

package run

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
)

func TestAtLeastKeepsTheLockTakenHoweverTheCommandEnds(t *testing.T) {
	t.Parallel()
	_, urls := clitest.StartServers(t, 3)
	for command, want := range map[string]int{
		"exit 0": 0, "exit 3": 3, "kill -KILL $$": 137, "kill -KILL $PPID": -1, // redlock itself
	} {
		name := t.Name() + command
		run := []string{"run", "--name", name, "--ttl", "5s", "--at-least", "50s", "--no-wait", "--", "sh", "-c"}
		status, _, stderr := clitest.Run(t, urls, append(run, command)...)
		assert.Equal(t, want, status, stderr)
		assert.Empty(t, withoutVotes(stderr))
		status, _, _ = clitest.Run(t, urls, append(run, "true")...)
		assert.Equal(t, cli.ExitTaken, status, command)
		state := inspect(t, urls, name)
		assert.NotEmpty(t, state.Value)
		for _, node := range state.Nodes {
			assert.LessOrEqual(t, node.TTL, 50*time.Second, command)
			if node.Value != "" { // the third may not have been asked before the end
				assert.Greater(t, node.TTL, 5*time.Second, "%s: the TTL", command)
			}
		}
	}
}

func TestAtLeastEnds(t *testing.T) {
	t.Parallel()
	_, urls := clitest.StartServers(t, 3)
	began := time.Now()
	for range 3 {
		status, _, stderr := clitest.Run(t, urls, "run", "--name", t.Name(), "--at-least", "1s", "--", "true")
		assert.Equal(t, 0, status, stderr)
	}
	assert.Greater(t, time.Since(began), 1900*time.Millisecond, "two times a second, less drift")
}

func TestAtLeastThatTheLockMayNotLastIsRefused(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--at-least", "-1s"}, {"--at-least", "61s"}, {"--at-least", "11s", "--max-ttl", "10s", "--ttl", "10s"}} {
		status, _, stderr := clitest.Run(t, []string{"127.0.0.1:1"}, append(append([]string{"run", "--name", "x"}, args...), "true")...)
		assert.Equal(t, cli.ExitUsage, status)
		assert.Contains(t, stderr, "--at-least: ")
	}
}
