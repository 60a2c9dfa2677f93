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
	"github.com/redquorum/redquorum/cmd/redlock/internal/terminal"
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

// A busy machine may be too slow to show everything in three seconds, so the demo gets more time
// there. What must never be seen fails at once.
func TestDemoShowsAllThatItPromises(t *testing.T) {
	noneLeft(t)
	var missing []string
	for duration := minDuration; duration <= maxDuration/2; duration *= 2 {
		var out bytes.Buffer
		cfg := config{duration: duration, workers: 4, look: wide}
		w := &output{w: &out}
		rep, err := play(t.Context(), cfg, w)
		if err != nil {
			t.Fatal(err)
		}
		w.print(rep.text(cfg.look))
		if err := rep.err(); err != nil && !errors.Is(err, errNothingAcquired) && !errors.Is(err, errNoLateWrite) {
			t.Fatalf("got %v and\n%s", err, out.String())
		}
		if strings.Contains(out.String(), "\x1b") {
			t.Errorf("got escape sequences in plain output: %q", out.String())
		}
		if missing = missingFrom(&rep, out.String()); len(missing) == 0 {
			return
		}
		t.Logf("%v are too short here: missing %q in\n%s", duration, missing, out.String())
	}
	t.Errorf("the demo never shows %q", missing)
}

// missingFrom returns what a demo of four workers promises and did not show.
func missingFrom(rep *report, text string) (missing []string) {
	expect := func(shown bool, what string) {
		if !shown {
			missing = append(missing, what)
		}
	}
	expect(len(rep.phases) == 5, "five phases")
	for i, p := range rep.phases {
		if i%2 == 0 { // before the outage, while both are away, and after it
			expect(len(waitsOf(rep.holds, p.from, p.to)) > 0, fmt.Sprintf("a hold with %d nodes up", p.up))
		}
	}
	expect(rep.handedOver > 0, "a hand-over")
	expect(rep.inTurn > 0, "a hold in turn")
	stop := rep.stop
	next, found := rep.successor()
	expect(found && next.worker != stop.worker && next.began >= stop.lost, "a successor of the stopped worker")
	expect(errors.Is(stop.err, redlock.ErrLost) && stop.wrote >= stop.lost, "a lost lock and a late write")
	expect(!stop.passed && stop.token != 0 && stop.token < stop.seen, "that its token is stale")
	for _, line := range []string{
		"node 2 (", "node 4 (", " stopped, with its connections\n", "is back, with its data\n",
		"is stopped: asleep, cut off from all nodes\n", "has lost the lock: its validity has ended\n",
		"wakes up and writes with its old token: REJECTED\n",
		"4 workers wait for one lock", "Two of five nodes were away", "lost at ", "REJECTED by the store.",
		fmt.Sprintf("The token was %d; the store had seen %d.", stop.token, stop.seen),
		"No two holds overlap", "   nodes up  555", "4444", "3333", "x~", "~!", "█", "·",
	} {
		expect(strings.Contains(text, line), line)
	}
	return missing
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
	for duration := minDuration / 2; duration <= maxDuration/2; duration *= 2 {
		out.Reset()
		err = run(t.Context(), config{duration: duration, workers: 3, nodes: endpoints, look: wide}, &out)
		if !errors.Is(err, errNothingAcquired) && !errors.Is(err, errNoLateWrite) {
			break
		}
		t.Logf("%v are too short here", duration)
	}
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
	// A frame of the live view.
	out := &stopWriter{until: regexp.MustCompile("acquired [1-9]"), stop: cancel}
	live := wide
	live.Live = true
	if err := run(ctx, config{duration: time.Minute, workers: 4, look: live}, out); err != nil {
		t.Error(err)
	}
	_, after, _ := strings.Cut(out.text.String(), terminal.LeaveScreen)
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
