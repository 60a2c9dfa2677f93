package redlock

import (
	"context"

	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// SemaphoreStatus is what the nodes know of a semaphore, at about one moment.
type SemaphoreStatus struct {
	Name string

	// Permits is the number of permits that most of the nodes whose votes count know. It is 0 if
	// none of them knows any: then nobody has a permit.
	Permits int

	// Slots has what [Locker.Inspect] tells of the name of each slot, but not who waits: waiters
	// wait for any.
	Slots []Status

	Nodes  []SemaphoreNodeStatus // in the order of the endpoints
	Quorum int                   // how many nodes make a quorum
}

// SemaphoreNodeStatus is what one node knows of a semaphore, beside its slots.
type SemaphoreNodeStatus struct {
	Endpoint string   // without user and password
	Permits  int      // the number that the node knows; 0 for none
	Waiting  int      // processes that wait for a permit at this node
	Waiters  []string // the owners of up to 16 of them, in their order
	Err      error    // why the node did not answer, or why its answer does not count
}

// Inspect asks every node who holds the permits, like [Locker.Inspect]. It tells the number of
// permits that the nodes know, which may be another one than that of s.
func (s *Semaphore) Inspect(ctx context.Context) (SemaphoreStatus, error) {
	l := s.locker
	cfg, err := l.config.lockConfig(ctx, s.name, nil)
	if err != nil {
		return SemaphoreStatus{}, err
	}
	if !l.life.enter() {
		return SemaphoreStatus{}, ErrClosed
	}
	defer l.life.leave()
	replies, r, err := l.askEach(ctx, wire.InspectPermits(s.wire.Key), s.name, l.config.timeout(cfg.ttl))
	all := r.Nodes()
	status := SemaphoreStatus{Name: s.name, Quorum: l.members.View().Need(), Nodes: make([]SemaphoreNodeStatus, len(all))}
	answers, known := make([]wire.Permits, len(all)), make([]bool, len(all))
	votes := map[int]int{} // for each number of permits
	for i, node := range all {
		n := &status.Nodes[i]
		n.Endpoint = node.Endpoint()
		answers[i], known[i] = wire.ReadPermits(replies[i])
		if !known[i] {
			n.Err = l.whyMissing(r, i)
			continue
		}
		n.Permits, n.Waiting, n.Waiters = len(answers[i].Slots), answers[i].Waiting, ownersOf(answers[i].Waiters)
		if !r.GrantCounts(i) {
			n.Err = l.members.Explain(i, r.Err(i))
		} else if n.Permits > 0 {
			votes[n.Permits]++
		}
	}
	for number, nodes := range votes {
		if most := votes[status.Permits]; nodes > most || nodes == most && number > status.Permits {
			status.Permits = number
		}
	}
	for slot := range status.Permits {
		status.Slots = append(status.Slots, l.status(s.name+wire.Slot(slot+1), r, func(node int) (in wire.Inspection, ok bool) {
			if slot < len(answers[node].Slots) {
				in = answers[node].Slots[slot]
			}
			return in, known[node] // a slot beyond the number that a node knows is free there
		}))
	}
	return status, err
}
