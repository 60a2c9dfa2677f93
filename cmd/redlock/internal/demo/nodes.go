package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/redlock/redlocktest"
)

// embedded is a set of Redis masters inside this process, each on its own loopback port. A node
// that is stopped keeps its data. (A master that comes back empty has forgotten its votes; the demo
// does not show that.)
type embedded struct {
	*redlocktest.Cluster
	close func()
}

func startEmbedded(n int) (e *embedded, err error) {
	defer func() {
		if failure := recover(); failure != nil { // no port is free
			err = fmt.Errorf("start the masters: %v", failure)
		}
	}()
	c, stop := redlocktest.Masters(n)
	return &embedded{c, stop}, nil
}

// change is a node that is stopped or restarted: as planned, and then as it happened.
type change struct {
	at   time.Duration // since the start
	node int           // its index
	up   bool
}

// planOutage stops two nodes one after the other, so that both are away for a while, and restarts
// them.
func planOutage(total time.Duration) []change {
	return []change{
		{at: total * 20 / 100, node: 1, up: false},
		{at: total * 25 / 100, node: 3, up: false},
		{at: total * 45 / 100, node: 1, up: true},
		{at: total * 50 / 100, node: 3, up: true},
	}
}

// outage carries out a plan until ctx ends, and records each change when it is made.
func outage(ctx context.Context, nodes *embedded, plan []change, record *recorder) {
	for _, c := range plan {
		if !sleep(ctx, c.at-record.elapsed()) {
			return
		}
		if c.up {
			c.at = record.elapsed()
			nodes.Node(c.node).Start()
		} else {
			nodes.Node(c.node).Stop()
			c.at = record.elapsed()
		}
		record.changed(c, nodes.Endpoints()[c.node])
	}
}

// changeText describes a change in a line, after its time.
func changeText(c change, endpoint string) string {
	node := fmt.Sprintf("node %d (%s)", c.node+1, endpoint)
	if c.up {
		return node + " is back, with its data"
	}
	return node + " stopped, with its connections"
}

// phase is the time between two changes of the nodes.
type phase struct {
	from, to time.Duration
	up       int // number of nodes
}

// splitPhases splits a run at the changes.
func splitPhases(changes []change, total time.Duration, nodes int) []phase {
	phases := []phase{{up: nodes}}
	for _, c := range changes {
		last := &phases[len(phases)-1]
		last.to = c.at
		up := last.up - 1
		if c.up {
			up = last.up + 1
		}
		phases = append(phases, phase{from: c.at, up: up})
	}
	last := &phases[len(phases)-1]
	last.to = max(total, last.from)
	return phases
}

// upAt returns how many nodes were up at a moment.
func upAt(phases []phase, at time.Duration) int {
	i := len(phases) - 1
	for i > 0 && phases[i].from > at {
		i--
	}
	return phases[i].up
}

// sleep waits for d. It reports false if ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool { return clock.Sleep(ctx, clock.System(), d) }
