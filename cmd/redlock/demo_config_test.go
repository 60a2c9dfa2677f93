package main

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestWrongFlagsAreUsageErrorsThatNameTheFlag(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string // in the error
	}{
		{[]string{"--workers", "0"}, "--workers: 0 is not between 1 and 128"},
		{[]string{"--workers", "-3"}, "--workers: -3"},
		{[]string{"--workers", "129"}, "--workers: 129"},
		{[]string{"--workers", "many"}, `"--workers"`},
		{[]string{"--duration", "999ms"}, "--duration: 999ms is not between 1s and 10m0s"},
		{[]string{"--duration", "10m1s"}, "--duration: 10m1s"},
		{[]string{"--duration", "10"}, `"--duration"`},
		{[]string{"--nodes", ""}, "--nodes: endpoint 1 of 1 is empty"},
		{[]string{"--nodes", "a:1,,b:2"}, "--nodes: endpoint 2 of 3 is empty"},
		{[]string{"--nodes", "a:1,b"}, "--nodes: endpoint 2: "},
		{[]string{"--nodes", "a:1", "--nodes", "a:1"}, "--nodes: endpoints 1 and 2 are the same server"},
		{[]string{"--node", "a:1"}, "unknown flag: --node"},
		{[]string{"a:1"}, "demo takes no arguments"},
	} {
		status, stdout, stderr := line(append([]string{"demo"}, c.args...)...)
		if status != exitUsage || stdout != "" || !strings.Contains(stderr, c.want) || !strings.Contains(stderr, "redlock demo --help") {
			t.Errorf("%q: got status %d, stdout %q, stderr %q; want %d, nothing, %q", c.args, status, stdout, stderr, exitUsage, c.want)
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
		status, stdout, stderr := line(append([]string{"demo"}, args...)...)
		if status != exitUsage || strings.Contains(stdout+stderr, "sec") {
			t.Errorf("%q: got status %d, stdout %q, stderr %q; want %d and no password", args, status, stdout, stderr, exitUsage)
		}
	}
}

func TestNodesAreRepeatedOrSeparatedByCommas(t *testing.T) {
	got := splitNodes([]string{"a:1, b:2", "redis://:p%2Cw@c:3"})
	if want := []string{"a:1", "b:2", "redis://:p%2Cw@c:3"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := splitNodes(nil); got != nil {
		t.Errorf("got %q of no flag, want nil", got)
	}
}

func TestALockerServesFourWorkers(t *testing.T) {
	for workers, want := range map[int]int{1: 1, 4: 1, 5: 2, 12: 3, 128: 32} {
		cfg := demoConfig{workers: workers}
		if got := cfg.lockers(); got != want {
			t.Errorf("%d workers: got %d Lockers, want %d", workers, got, want)
		}
	}
}

func TestTwoNodesAreGoneAtOnceAndBackBeforeTheEnd(t *testing.T) {
	phases := splitPhases(planOutage(minDemoDuration), minDemoDuration, embeddedNodes)
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

func TestRetriesGetRarerWithMoreWorkers(t *testing.T) {
	for _, c := range []struct {
		workers           int
		shortest, longest time.Duration
	}{
		{1, 5 * time.Millisecond, 25 * time.Millisecond},
		{12, 5 * time.Millisecond, 25 * time.Millisecond},
		{100, 40 * time.Millisecond, 200 * time.Millisecond},
	} {
		cfg := demoConfig{workers: c.workers}
		if shortest, longest := cfg.retry(); shortest != c.shortest || longest != c.longest {
			t.Errorf("%d workers: got %v to %v, want %v to %v", c.workers, shortest, longest, c.shortest, c.longest)
		}
	}
}
