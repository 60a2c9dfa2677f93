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

// outage stops two nodes one after the other, so that both are away for a while, and restarts them,
// until ctx ends. It records each change when it is made.
func outage(ctx context.Context, nodes *embedded, total time.Duration, record *recorder) {
	for _, plan := range []struct {
		percent time.Duration
		node    int
		up      bool
	}{{20, 1, false}, {25, 3, false}, {45, 1, true}, {50, 3, true}} {
		if !sleep(ctx, total*plan.percent/100-record.elapsed()) {
			return
		}
		node := fmt.Sprintf("node %d (%s)", plan.node+1, nodes.endpoints[plan.node])
		said, at := node+" stopped, with its connections", record.elapsed()
		if plan.up {
			said = node + " is back, with its data"
			if err := nodes.restart(plan.node); err != nil {
				record.fault("%s could not be restarted: %v", node, err)
				continue
			}
		} else {
			nodes.stop(plan.node)
			at = record.elapsed()
		}
		record.notes(at, said, func(t *trace) { t.changes = append(t.changes, change{at, plan.up}) })
	}
}

// sleep waits for d. It reports false if ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool { return clock.Sleep(ctx, clock.System(), d) }
