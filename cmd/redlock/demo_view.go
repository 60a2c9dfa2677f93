package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// view shows a run while it goes on.
type view interface {
	// run shows the state again and again until ctx ends, and leaves the output fit for lines of text.
	run(ctx context.Context)

	// changed tells of a node that was stopped or came back. From any goroutine.
	changed(change)
}

// snapshot is a run at one moment.
type snapshot struct {
	elapsed, total time.Duration
	title          string
	locks          []nameState
	nodes          []nodeState
	counts         counts
}

// nodeState is one node as all the Lockers see it.
type nodeState struct {
	endpoint string
	state    pool.State // Connecting also where the Lockers do not agree
	reason   string     // why it is down
}

// observe asks the Lockers, which have the same nodes, how these are.
func observe(lockers []*redlock.Locker) []nodeState {
	var states []nodeState
	for i, locker := range lockers {
		for j, node := range locker.Stats().Nodes {
			switch {
			case i == 0:
				states = append(states, nodeState{node.Endpoint, node.State, shortReason(node.Err)})
			case states[j].state != node.State:
				states[j].state, states[j].reason = pool.Connecting, ""
			}
		}
	}
	return states
}

// shortReason is why a node is down, without the addresses that the system puts before it: the line has one already.
func shortReason(err error) string {
	var system syscall.Errno
	switch {
	case err == nil:
		return ""
	case errors.As(err, &system):
		return system.Error()
	default:
		return err.Error()
	}
}

func countUp(nodes []nodeState) (up int) {
	for _, n := range nodes {
		if n.state == pool.Up {
			up++
		}
	}
	return up
}

// changeText is a change as a line, behind its time.
func changeText(c change, endpoint string) string {
	node := fmt.Sprintf("node %d (%s)", c.node+1, endpoint)
	switch {
	case c.err != nil:
		return fmt.Sprintf("%s could not be brought back: %v", node, c.err)
	case c.up:
		return node + " is back, with its data"
	default:
		return node + " stopped: listener and connections closed"
	}
}

// countsText is what happened so far, in one line.
func countsText(c counts) string {
	return fmt.Sprintf("acquired %d   refused %d   gave up %d   lost %d   errors %d", c.acquired, c.refused, c.gaveUp, c.lost, c.failed)
}
