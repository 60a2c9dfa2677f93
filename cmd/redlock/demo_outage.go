package main

import (
	"context"
	"time"

	"github.com/redquorum/redquorum/clock"
)

// change is a node that is stopped or brought back: planned, and then as it happened.
type change struct {
	at   time.Duration // since the start
	node int           // its index
	up   bool
	err  error // why it did not come about
}

// planOutage stops two nodes, one after the other, so that both are gone for a while, and brings them back.
func planOutage(total time.Duration) []change {
	return []change{
		{at: total * 30 / 100, node: 1, up: false},
		{at: total * 40 / 100, node: 3, up: false},
		{at: total * 65 / 100, node: 1, up: true},
		{at: total * 75 / 100, node: 3, up: true},
	}
}

// outage carries out a plan until ctx ends, and tells of each change as it is made.
func outage(ctx context.Context, nodes *embedded, plan []change, clk clock.Clock, start clock.Instant, tell func(change)) {
	for _, c := range plan {
		if !sleep(ctx, c.at-clk.Now().Sub(start)) {
			return
		}
		if c.up {
			c.at = clk.Now().Sub(start)
			c.err = nodes.restart(c.node)
		} else {
			nodes.stop(c.node)
			c.at = clk.Now().Sub(start)
		}
		tell(c)
	}
}

// sleep waits for d, and reports false where ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
