package members

import (
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// Patrol reads the markers regularly, and more often while locks are held, so that holders learn in
// time that a quorum has forgotten them, even if nothing else is asked of the servers. It is called
// whenever a lock is acquired, so it takes no mutex while there are many: a tick that sets hurried
// asks for held locks afterwards, and so misses none whose holder saw the old value.
func (ms *Membership) Patrol() {
	if ms.hurried.Load() {
		return
	}
	ms.mu.Lock()
	defer ms.mu.Unlock()
	switch {
	case !ms.Proves() || ms.stopped:
	case ms.patrols == nil:
		ms.patrols = ms.clock.AfterFunc(patrolRest, ms.patrolTick)
	case !ms.hurried.Load() && ms.observer.HoldsLocks():
		ms.hurried.Store(true)
		ms.patrols.Reset(patrolPause)
	}
}

// patrolTick asks all nodes that vote by a marker for it.
func (ms *Membership) patrolTick() {
	ms.mu.Lock()
	if ms.stopped {
		ms.mu.Unlock()
		return
	}
	pause := patrolRest
	ms.hurried.Store(false)
	if ms.observer.HoldsLocks() {
		ms.hurried.Store(true)
		pause = patrolPause
	}
	ms.patrols.Reset(pause)
	ms.mu.Unlock()
	v := ms.View()
	for node := range v.Voting.Minus(v.proofless).Nodes() {
		c := &markerCheck{membership: ms, node: node, request: wire.GetMarker()}
		c.request.Deadline, c.request.Sink = ms.clock.Now().Add(patrolPause), c
		ms.do(ms.Nodes()[node], &c.request)
	}
}

// markerCheck is one read of a marker.
type markerCheck struct {
	membership *Membership
	node       int
	request    pipeline.Request
}

func (c *markerCheck) asks() *Membership { return c.membership }

// Complete takes the answer. It implements pipeline.Sink.
func (c *markerCheck) Complete(_ int, reply any, err error) {
	if err == nil {
		c.membership.Proven(c.node, wire.ReadMarker(reply))
	}
}
