package demo

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"

	"github.com/redquorum/redquorum/clock"
)

// embedded is a set of Redis masters inside this process, each on its own loopback port.
//
// Their keys expire by the clock, checked when a command reads them (miniredis.ClockTTL).
// FastForward from a timer would take time off keys that were set after the last tick, and expire
// them too early.
type embedded struct {
	servers   []*miniredis.Miniredis // one goroutine at a time starts and stops them
	hooks     []server.Hook          // of each server, while it runs
	endpoints []string
}

func startEmbedded(n int) (*embedded, error) {
	e := &embedded{}
	for i := range n {
		m := miniredis.NewMiniRedis()
		m.ClockTTL(true)
		if err := m.Start(); err != nil {
			e.close()
			return nil, fmt.Errorf("start embedded node %d: %w", i+1, err)
		}
		e.servers = append(e.servers, m)
		e.hooks = append(e.hooks, infoHook(rand.Text(), time.Now()))
		e.endpoints = append(e.endpoints, "redis://"+m.Addr())
		m.Server().SetPreHook(e.hooks[i])
	}
	return e, nil
}

// infoHook answers INFO server, which miniredis does not implement and rejects in other words than
// Redis.
func infoHook(runID string, started time.Time) server.Hook {
	return func(c *server.Peer, cmd string, _ ...string) bool {
		if cmd != "INFO" {
			return false
		}
		c.WriteBulk(fmt.Sprintf("# Server\r\nrun_id:%s\r\nuptime_in_seconds:%d\r\n", runID, int(time.Since(started).Seconds())))
		return true
	}
}

// stop closes the listener and every connection of a node, so nobody can reach it. Its data stays
// and goes on expiring. (A master that comes back empty has forgotten its votes; the demo does not
// show that.)
func (e *embedded) stop(node int) { e.servers[node].Close() }

// restart brings a stopped node back, on the same port and with its data.
func (e *embedded) restart(node int) error {
	m := e.servers[node]
	if err := m.Restart(); err != nil {
		return err
	}
	m.Server().SetPreHook(e.hooks[node]) // a client that was faster is refused, and tries again
	return nil
}

// close stops all nodes and waits for their goroutines.
func (e *embedded) close() {
	for _, m := range e.servers {
		m.Close() // a no-op if it is stopped
	}
}

// change is a node that is stopped or restarted: as planned, and then as it happened.
type change struct {
	at   time.Duration // since the start
	node int           // its index
	up   bool
	err  error // why it failed
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
			c.err = nodes.restart(c.node)
		} else {
			nodes.stop(c.node)
			c.at = record.elapsed()
		}
		record.changed(c, nodes.endpoints[c.node])
	}
}

// changeText describes a change in a line, after its time.
func changeText(c change, endpoint string) string {
	node := fmt.Sprintf("node %d (%s)", c.node+1, endpoint)
	switch {
	case c.err != nil:
		return fmt.Sprintf("%s could not be restarted: %v", node, c.err)
	case c.up:
		return node + " is back, with its data"
	default:
		return node + " stopped, with its connections"
	}
}

// phase is the time between two changes of the nodes.
type phase struct {
	from, to time.Duration
	up       int // number of nodes
}

// splitPhases splits a run at the changes that succeeded.
func splitPhases(changes []change, total time.Duration, nodes int) []phase {
	phases := []phase{{up: nodes}}
	for _, c := range changes {
		if c.err != nil {
			continue
		}
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
