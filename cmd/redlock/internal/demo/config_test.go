package demo

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
)

func TestWrongFlagsAreUsageErrorsThatNameTheFlag(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string // in the error
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
	} {
		status, stdout, stderr := clitest.Line(clitest.Root(NewCommand()), append([]string{"demo"}, c.args...)...)
		if status != cli.ExitUsage || stdout != "" || !strings.Contains(stderr, c.want) || !strings.Contains(stderr, "redlock demo --help") {
			t.Errorf("%q: got status %d, stdout %q, stderr %q; want %d, nothing, %q", c.args, status, stdout, stderr, cli.ExitUsage, c.want)
		}
	}
}

func TestPasswordOfAWrongEndpointIsNotShown(t *testing.T) {
	for _, args := range [][]string{
		{"--nodes", "redis://:secret@"},
		{"--nodes", "redis://user:secret@host:port"},
		{"--nodes", `redis://:"secret@host:1`},
		{"--nodes", "redis://:sec,ret@host:1"},
		{"--nodes", "http://:secret@host"},
		{"--nodes", "redis://:secret@host:1,redis://:secret@host:1"},
		{"--node", "redis://:secret@host:1"},
		{"redis://:secret@host:1"},
	} {
		status, stdout, stderr := clitest.Line(clitest.Root(NewCommand()), append([]string{"demo"}, args...)...)
		if status != cli.ExitUsage || strings.Contains(stdout+stderr, "sec") {
			t.Errorf("%q: got status %d, stdout %q, stderr %q; want %d and no password", args, status, stdout, stderr, cli.ExitUsage)
		}
	}
}

func TestTwoNodesAreGoneAtOnceAndBackBeforeTheEnd(t *testing.T) {
	phases := splitPhases(planOutage(minDuration), minDuration, embeddedNodes)
	var up []int
	for _, p := range phases {
		up = append(up, p.up)
		if p.to-p.from < 50*time.Millisecond {
			t.Errorf("%d nodes are up for %v only", p.up, p.to-p.from)
		}
	}
	if want := []int{5, 4, 3, 4, 5}; !slices.Equal(up, want) {
		t.Errorf("got %v nodes up, want %v", up, want)
	}
}

// Otherwise waiters poll for a lock that is handed to them in good time.
func TestPollsComeAfterATurnOfAllWorkers(t *testing.T) {
	for _, workers := range []int{minWorkers, 6, maxWorkers} {
		for _, duration := range []time.Duration{minDuration, 10 * time.Second, maxDuration} {
			cfg := config{duration: duration, workers: workers}
			_, longestHold := cfg.holds()
			shortest, longest := cfg.retry()
			// The pause is in the upper half.
			if got := shortest / 2; got < time.Duration(workers-1)*longestHold*3/4 {
				t.Errorf("%d workers in %v: got polls after %v, holds of up to %v", workers, duration, got, longestHold)
			}
			if longest > time.Minute || shortest > longest {
				t.Errorf("%d workers in %v: WithRetry does not take %v and %v", workers, duration, shortest, longest)
			}
		}
	}
}

func TestHolderIsStoppedWhenAllNodesAreBack(t *testing.T) {
	cfg := config{duration: minDuration}
	plan := planOutage(cfg.duration)
	if last := plan[len(plan)-1]; !last.up || cfg.stopAt() <= last.at {
		t.Errorf("got a stop at %v, the last node back at %v", cfg.stopAt(), last.at)
	}
	if cfg.ttl() < minTTL {
		t.Errorf("got a TTL of %v", cfg.ttl())
	}
}
