package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// noneLeft fails the test when goroutines are left that were not there when it was called.
func noneLeft(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		for range 100 {
			if runtime.NumGoroutine() <= before {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		stacks := make([]byte, 1<<20)
		t.Errorf("%d goroutines at first, %d left:\n%s", before, runtime.NumGoroutine(), stacks[:runtime.Stack(stacks, true)])
	})
}

func TestDemoOutlivesTheLossOfTwoNodes(t *testing.T) {
	noneLeft(t)
	var out bytes.Buffer
	cfg := demoConfig{duration: 1500 * time.Millisecond, workers: 8}
	rep, err := playDemo(t.Context(), cfg, &output{w: &out})
	if err != nil {
		t.Fatal(err)
	}
	if err := rep.err(); err != nil || len(rep.overlaps) != 0 {
		t.Errorf("got %v and overlaps %v, want none", err, rep.overlaps)
	}
	if len(rep.phases) != 5 {
		t.Fatalf("got %d phases, want 5: %+v", len(rep.phases), rep.changes)
	}
	for _, i := range []int{0, 2, 4} { // before, while both are gone, after
		if p := rep.phases[i]; p.acquired == 0 {
			t.Errorf("nothing acquired from %v to %v, with %d nodes up", p.from, p.to, p.up)
		}
	}
	if rep.counts.acquired != rep.holds {
		t.Errorf("%d locks acquired, %d holds recorded", rep.counts.acquired, rep.holds)
	}
	for _, want := range []string{"node 2 (", "node 4 (", "stopped", "is back, with its data", "of 5 nodes up"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("got %q, want %q in it", out.String(), want)
		}
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Errorf("got escape sequences in plain output: %q", out.String())
	}
}

func TestStoppedNodeComesBackWithItsData(t *testing.T) {
	noneLeft(t)
	nodes, err := startEmbedded(1)
	if err != nil {
		t.Fatal(err)
	}
	defer nodes.close()
	m := nodes.servers[0]
	if err := m.Set("kept", "value"); err != nil {
		t.Fatal(err)
	}
	if err := m.Set("expired", "value"); err != nil {
		t.Fatal(err)
	}
	m.SetTTL("expired", 20*time.Millisecond)
	nodes.stop(0)
	time.Sleep(30 * time.Millisecond)
	if err := nodes.restart(0); err != nil {
		t.Fatal(err)
	}
	if got := "redis://" + m.Addr(); got != nodes.endpoints[0] {
		t.Errorf("got it back at %s, want %s", got, nodes.endpoints[0])
	}
	if !m.Exists("kept") || m.Exists("expired") {
		t.Errorf("got keys %q, want those that have not expired", m.Keys())
	}
}

func TestDemoOnGivenNodesStopsNoneAndHidesPasswords(t *testing.T) {
	noneLeft(t)
	nodes, err := startEmbedded(3)
	if err != nil {
		t.Fatal(err)
	}
	defer nodes.close()
	var endpoints []string
	for _, m := range nodes.servers {
		m.RequireAuth("secret")
		endpoints = append(endpoints, fmt.Sprintf("redis://:secret@%s", m.Addr()))
	}
	var out bytes.Buffer
	err = runDemo(t.Context(), demoConfig{duration: 300 * time.Millisecond, workers: 5, nodes: endpoints}, &out)
	if err != nil {
		t.Error(err)
	}
	got := out.String()
	if !strings.Contains(got, "The nodes are yours, so none was stopped.") || strings.Contains(got, "listener") {
		t.Errorf("got %q, want no node stopped", got)
	}
	if strings.Contains(got, "secret") {
		t.Errorf("got the password in %q", got)
	}
}

func TestSignalEndsTheDemoEarlyWithTheTable(t *testing.T) {
	noneLeft(t)
	ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
	defer cancel()
	var out bytes.Buffer
	started := time.Now()
	if err := runDemo(ctx, demoConfig{duration: time.Minute, workers: 4}, &out); err != nil {
		t.Error(err)
	}
	if took := time.Since(started); took > 10*time.Second {
		t.Errorf("took %v", took)
	}
	if got := out.String(); !strings.Contains(got, "Ended early, after 0.") || !strings.Contains(got, "overlaps  ") {
		t.Errorf("got %q, want that it ended early, and the table", got)
	}
}

func TestDemoWithoutAQuorumNamesTheNodes(t *testing.T) {
	noneLeft(t)
	nodes, err := startEmbedded(1)
	if err != nil {
		t.Fatal(err)
	}
	nodes.stop(0)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond) // in place of demoReadyBound
	defer cancel()
	err = runDemo(ctx, demoConfig{duration: time.Second, workers: 1, nodes: nodes.endpoints}, &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), "no quorum of nodes answered") || !strings.Contains(err.Error(), nodes.endpoints[0]) {
		t.Errorf("got %v, want no quorum, and the endpoint", err)
	}
	if got := exitStatus(err); got != exitFailed {
		t.Errorf("got status %d, want %d", got, exitFailed)
	}
}

type brokenWriter struct{}

var errBroken = errors.New("broken pipe")

func (brokenWriter) Write([]byte) (int, error) { return 0, errBroken }

func TestOutputThatCannotBeWrittenIsAnError(t *testing.T) {
	noneLeft(t)
	err := runDemo(t.Context(), demoConfig{duration: 100 * time.Millisecond, workers: 1}, brokenWriter{})
	if !errors.Is(err, errBroken) {
		t.Errorf("got %v, want %v", err, errBroken)
	}
}
