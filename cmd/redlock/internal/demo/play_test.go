package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/redlock"
)

// noneLeft fails the test if it leaves goroutines behind.
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

func TestDemoShowsAllThatItPromises(t *testing.T) {
	noneLeft(t)
	var out bytes.Buffer
	cfg := config{duration: 3 * time.Second, workers: 4, look: wide}
	w := &output{w: &out}
	rep, err := play(t.Context(), cfg, w)
	if err != nil {
		t.Fatal(err)
	}
	w.print(rep.text(cfg.look))
	if err := rep.err(); err != nil || len(rep.overlaps) != 0 {
		t.Errorf("got %v and overlaps %v, want none", err, rep.overlaps)
	}
	if len(rep.phases) != 5 {
		t.Fatalf("got %d phases, want 5: %+v", len(rep.phases), rep.changes)
	}
	for _, i := range []int{0, 2, 4} { // before the outage, while both are away, and after it
		if p := rep.phases[i]; len(waitsOf(rep.holds, p.from, p.to)) == 0 {
			t.Errorf("nothing acquired from %v to %v, with %d nodes up", p.from, p.to, p.up)
		}
	}
	if rep.handedOver == 0 || rep.inTurn == 0 {
		t.Errorf("got %d hand-overs and %d holds in turn, want some", rep.handedOver, rep.inTurn)
	}
	stop := rep.stop
	if next, found := rep.successor(); !found || next.worker == stop.worker || next.began < stop.lost {
		t.Errorf("got %+v (%v) as the successor, want another worker after %v", next, found, stop.lost)
	}
	if !errors.Is(stop.err, redlock.ErrLost) || stop.passed || stop.token == 0 || stop.token >= stop.seen || stop.wrote < stop.lost {
		t.Errorf("got %+v, want a lost lock and a late write that was refused for its token", stop)
	}
	for _, want := range []string{
		"node 2 (", "node 4 (", "stopped: listener and connections closed\n", "is back, with its data\n",
		"is stopped: asleep, and cut off from all nodes\n", "has lost the lock: its validity has ended\n",
		"wakes up and writes with its old token: REJECTED\n",
		"4 workers wait for one lock", "Two of five nodes were away", "lost at ", "REJECTED by the store.",
		fmt.Sprintf("The token was %d; the store had seen %d.", stop.token, stop.seen),
		"No two holds overlap", "   nodes up  555", "4444", "3333", "x~", "~!", "█", "·",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("got\n%s\nwant in it %q", out.String(), want)
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
	err = run(t.Context(), config{duration: 1500 * time.Millisecond, workers: 3, nodes: endpoints, look: wide}, &out)
	if err != nil {
		t.Error(err)
	}
	got := out.String()
	if !strings.Contains(got, "Not shown: the nodes are yours, so none was stopped.") || strings.Contains(got, "listener") ||
		!strings.Contains(got, "REJECTED by the store.") {
		t.Errorf("got %q, want no node stopped, and all else shown", got)
	}
	if strings.Contains(got, "secret") {
		t.Errorf("got the password in %q", got)
	}
}

// stopWriter calls stop once what was written matches a pattern.
type stopWriter struct {
	text  bytes.Buffer
	until *regexp.Regexp
	stop  func()
}

func (w *stopWriter) Write(p []byte) (int, error) {
	n, err := w.text.Write(p)
	if w.until.Match(w.text.Bytes()) {
		w.stop()
	}
	return n, err
}

func TestSignalEndsTheDemoEarlyWithWhatWasSeen(t *testing.T) {
	noneLeft(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &stopWriter{until: regexp.MustCompile("acquired [1-9]"), stop: cancel} // a frame of the live view
	live := wide
	live.live = true
	if err := run(ctx, config{duration: time.Minute, workers: 4, look: live}, out); err != nil {
		t.Error(err)
	}
	_, after, _ := strings.Cut(out.text.String(), leaveScreen)
	if !strings.Contains(after, "Ended early, after ") || !strings.Contains(after, "   worker 4  ") {
		t.Errorf("got %q, want that it ended early, and the picture", after)
	}
}

func TestDemoWithoutAQuorumNamesTheNodes(t *testing.T) {
	noneLeft(t)
	nodes, err := startEmbedded(1)
	if err != nil {
		t.Fatal(err)
	}
	nodes.stop(0)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond) // instead of readyBound
	defer cancel()
	err = run(ctx, config{duration: time.Second, workers: 1, nodes: nodes.endpoints}, &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), "no quorum of nodes answered") || !strings.Contains(err.Error(), nodes.endpoints[0]) {
		t.Errorf("got %v, want no quorum, and the endpoint", err)
	}
	if got := cli.ExitStatus(err); got != cli.ExitFailed {
		t.Errorf("got status %d, want %d", got, cli.ExitFailed)
	}
}

// brokenWriter is a stdout whose reader is gone. It calls stop at the first write.
type brokenWriter struct{ stop func() }

var errBroken = errors.New("broken pipe")

func (w brokenWriter) Write([]byte) (int, error) {
	w.stop()
	return 0, errBroken
}

func TestOutputThatCannotBeWrittenIsAnError(t *testing.T) {
	noneLeft(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := run(ctx, config{duration: time.Minute, workers: 2, look: wide}, brokenWriter{cancel})
	if !errors.Is(err, errBroken) {
		t.Errorf("got %v, want %v", err, errBroken)
	}
}
