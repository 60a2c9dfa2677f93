package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redquorum/redquorum/clock"
)

const ms = clock.Instant(time.Millisecond)

// reportOf judges holds as if a demo of a second had recorded them.
func reportOf(holds ...hold) report {
	r := newRecorder(clock.System(), demoNames)
	for _, h := range holds {
		r.begin(h)
		r.end(h, demoTTL)
	}
	rep := newReport(r, 0, time.Second, embeddedNodes, planOutage(time.Second))
	rep.embedded = true
	return rep
}

func TestPlantedOverlapFailsAndIsShown(t *testing.T) {
	rep := reportOf(at("orders", 3, 0, 10*ms), at("orders", 7, 8*ms, 20*ms), at("reports", 5, 0, 20*ms))
	if got := exitStatus(rep.err()); got != exitFailed || !errors.Is(rep.err(), errOverlap) {
		t.Errorf("got status %d of %v, want %d of %v", got, rep.err(), exitFailed, errOverlap)
	}
	text := rep.text()
	if want := "overlap: orders: worker 7 began 2ms before worker 3 ended\n"; !strings.Contains(text, want) {
		t.Errorf("got %q, want %q in it", text, want)
	}
	if strings.Contains(text, "At no time") {
		t.Errorf("got %q, which denies the overlap", text)
	}
}

func TestNothingAcquiredFails(t *testing.T) {
	rep := reportOf()
	if got := exitStatus(rep.err()); got != exitFailed || !errors.Is(rep.err(), errNothingAcquired) {
		t.Errorf("got status %d of %v, want %d of %v", got, rep.err(), exitFailed, errNothingAcquired)
	}
	if text := rep.text(); strings.Contains(text, "At no time") {
		t.Errorf("got %q, which praises nothing", text)
	}
}

func TestHoldsOneAfterTheOtherPass(t *testing.T) {
	rep := reportOf(at("orders", 3, 0, 10*ms), at("orders", 7, 10*ms, 20*ms), at("reports", 5, 450*ms, 460*ms))
	if err := rep.err(); err != nil {
		t.Errorf("got %v, want nil", err)
	}
	want := "Two of five nodes were gone from 0.4 s to 0.7 s, and locks were acquired 1 time meanwhile.\n" +
		"No worker met an error at any time. At no time did two workers hold the same lock."
	if got := rep.summary(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestSummaryClaimsNoMoreThanWasSeen(t *testing.T) {
	for name, harm := range map[string]func(*counts){
		"lost":        func(c *counts) { c.lost++ },
		"failed":      func(c *counts) { c.failed++ },
		"unconfirmed": func(c *counts) { c.unconfirmed++ },
	} {
		rep := reportOf(at("orders", 1, 0, ms))
		harm(&rep.counts)
		if got := rep.summary(); strings.Contains(got, "No worker met an error") {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

func TestChangeThatFailedMakesNoPhase(t *testing.T) {
	changes := []change{
		{at: 1, node: 1},
		{at: 2, node: 1, up: true, err: errors.New("address in use")},
	}
	if got := splitPhases(changes, 3, 5); len(got) != 2 || got[1].up != 4 || got[1].to != 3 {
		t.Errorf("got %+v, want 4 nodes up until the end", got)
	}
}

func TestHoldCountsInThePhaseInWhichItBegan(t *testing.T) {
	phases := splitPhases(planOutage(time.Second), time.Second, 5)
	for _, c := range []struct{ at, from time.Duration }{
		{-1, 0},
		{0, 0},
		{299 * time.Millisecond, 0},
		{300 * time.Millisecond, 300 * time.Millisecond},
		{500 * time.Millisecond, 400 * time.Millisecond},
		{2 * time.Second, 750 * time.Millisecond},
	} {
		if got := phaseAt(phases, c.at).from; got != c.from {
			t.Errorf("at %v: got the phase from %v, want from %v", c.at, got, c.from)
		}
	}
}

func TestReportHasAllFigures(t *testing.T) {
	rep := reportOf(at("orders", 3, 0, 10*ms))
	text := rep.text()
	for _, want := range []string{
		"acquired ", "refused ", "gave up ", "wait p50 ", "wait p99 ", "validity min ", "validity p50 ",
		"lost ", "errors ", "overlaps ", "in 1 hold of 3 locks", "3 of 5",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("got %q, want %q in it", text, want)
		}
	}
	for l := range strings.Lines(text) {
		if l != strings.TrimRight(l, " \n")+"\n" {
			t.Errorf("trailing space in %q", l)
		}
	}
}
