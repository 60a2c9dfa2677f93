package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

const (
	// connectBound bounds the wait for a first quorum of masters, unless --wait gives another
	// bound. Cron jobs that cannot reach the masters must not pile up.
	connectBound = 5 * time.Second

	// A wait is reported when it is no longer a short one, then at growing intervals.
	sayFirst   = 500 * time.Millisecond
	sayAgain   = 10 * time.Second
	sayLongest = 10 * time.Minute
)

// ready waits for a first quorum of masters: for as long as --wait says, or else for connectBound,
// and for quarantines whose end is known. Masters that were restarted together with us are in one.
func (r *runner) ready(ctx context.Context, wait time.Duration) error {
	for bound := cmp.Or(wait, connectBound); ; {
		bounded, cancel := context.WithTimeout(ctx, bound)
		err := r.locker.Ready(bounded)
		cancel()
		left, known := r.untilQuorum()
		if err == nil || wait > 0 || !known || ctx.Err() != nil {
			return err
		}
		bound = left + connectBound
	}
}

// untilQuorum returns how long it takes until the quarantines of enough masters have ended, if
// nothing else keeps them from voting: those that remember wait for the others only. The end of a
// new master's decides nothing in a new cluster, which begins when all masters are there.
func (r *runner) untilQuorum() (left time.Duration, known bool) {
	stats := r.locker.Stats()
	var ends []time.Duration
	for i := range stats.Nodes {
		n := &stats.Nodes[i]
		remembers := n.Memory == "active" && errors.Is(n.Barred, pool.ErrQuarantined)
		counts := n.QuarantinedFor > 0 && (n.Memory != "new" || r.nodes.Strict)
		if admin.Votes(n) || remembers || counts {
			ends = append(ends, n.QuarantinedFor)
		}
	}
	if len(ends) < stats.Quorum {
		return 0, false
	}
	slices.Sort(ends)
	left = ends[stats.Quorum-1]
	return left, left > 0
}

// unready returns an error if too few masters vote for a quorum.
func (r *runner) unready() error {
	stats := r.locker.Stats()
	nodes := stats.Nodes
	failure := &redlock.QuorumError{Op: "ready", Need: stats.Quorum}
	for i := range nodes {
		n := &nodes[i]
		if !admin.Votes(n) {
			why := &redlock.NodeError{Endpoint: n.Endpoint, Err: cmp.Or(n.Barred, n.Err, pool.ErrTimeout)}
			failure.Nodes = append(failure.Nodes, why)
		}
	}
	if len(nodes)-len(failure.Nodes) >= failure.Need {
		return nil
	}
	return failure
}

// noQuorum is the text of such an error in one line, behind a colon.
func (r *runner) noQuorum(err error) string {
	return ": " + strings.ReplaceAll(cli.Explain(err, r.locker.Stats().Nodes...), "\n  ", "; ")
}

// soFar returns nothing for a wait that has just begun.
func soFar(d time.Duration) string {
	if d < time.Second {
		return ""
	}
	return fmt.Sprintf(" (%v so far)", d.Round(time.Second))
}

// readyToLead is ready, and says now and then why that takes long.
func (c *candidate) readyToLead(ctx context.Context) error {
	waiting, end := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	began := c.clock.Now()
	watcher.Go(func() {
		for pause := sayFirst; clock.Sleep(waiting, c.clock, pause); pause = min(max(2*pause, sayAgain), sayLongest) {
			if err := c.unready(); err != nil {
				c.messages.Say("waiting", "waits to lead %q%s%s", c.name, c.noQuorum(err), soFar(c.clock.Now().Sub(began)))
			}
		}
	})
	defer watcher.Wait()
	defer end()
	return c.ready(ctx, c.wait)
}
