package redlock

import (
	"cmp"
	"context"
	"time"

	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock/internal/round"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// Status is what the nodes know of a lock, at about one moment. Nodes whose vote does not count
// (quarantined ones, see [Stats]) are shown, but count neither for Value nor for Free. Within the
// time of [WithMinHold] a lock that was released is shown like one that is held.
type Status struct {
	Name   string
	Value  string       // what a quorum of nodes holds; empty if no value has a quorum
	Owner  string       // the owner in that value, see WithOwner; "readers" if readers hold it
	Since  Since        // since when, as that value tells
	Nodes  []NodeStatus // in the order of [Stats]
	Free   bool         // a quorum of nodes holds nothing
	Quorum int          // how many nodes make a quorum
}

// NodeStatus is what one node knows of a lock.
type NodeStatus struct {
	Endpoint string        // without user and password
	Value    string        // up to 4,096 bytes; empty if the node holds nothing, or by hand (then TTL is not 0)
	Owner    string        // the owner in the value, see WithOwner
	Since    Since         // since when, as the value tells
	TTL      time.Duration // how long the node keeps the value; negative if it does not expire
	Fence    int64         // the fencing counter; 0 if there is none
	Waiting  int           // processes that wait for the lock at this node
	Waiters  []string      // the owners of up to 16 of them, in their order
	Terms    int           // terms of an election of that name on record at this node, up to 256
	Readers  []Reader      // if readers hold the lock, up to 2,000; Value is the same for all such locks then
	Err      error         // why the node did not answer, or why its answer does not count
}

// Reader is a reader that a node knows, see [Locker.TryRLock].
type Reader struct {
	Value string
	Owner string        // the owner in the value, see WithOwner
	Since Since         // since when, as the value tells
	TTL   time.Duration // how long the node keeps it
}

// Inspect asks every node who holds a lock. It changes nothing. It returns what the nodes have
// answered by the node timeout or the end of ctx. If fewer than a quorum answered, it returns that
// along with the error, [ErrNoQuorum] in a [*QuorumError]. [Semaphore.Inspect] tells who has the
// permits of a semaphore.
func (l *Locker) Inspect(ctx context.Context, name string) (Status, error) {
	cfg, err := l.config.lockConfig(ctx, name, nil)
	if err != nil {
		return Status{}, err
	}
	if !l.life.enter() {
		return Status{}, ErrClosed
	}
	defer l.life.leave()
	replies, r, err := l.askEach(ctx, wire.Inspect(l.config.keyPrefix+name), name, l.config.timeout(cfg.ttl))
	return l.status(name, r, func(node int) (wire.Inspection, bool) { return wire.ReadInspect(replies[node]) }), err
}

// status makes a Status of what the nodes have answered. Answer reports whether a node has.
func (l *Locker) status(name string, r *round.Round, answer func(node int) (wire.Inspection, bool)) Status {
	nodes := r.Nodes()
	s := Status{Name: name, Nodes: make([]NodeStatus, len(nodes)), Quorum: l.members.View().Need()}
	held, free := map[string]int{}, 0
	for i, node := range nodes {
		n := &s.Nodes[i]
		n.Endpoint = node.Endpoint()
		in, ok := answer(i)
		if !ok {
			n.Err = l.whyMissing(r, i)
			continue
		}
		n.take(&in)
		switch {
		case !r.GrantCounts(i):
			n.Err = l.members.Explain(i, r.Err(i))
		case !in.Held:
			free++
		default:
			held[n.Value]++
		}
		if held[n.Value] >= s.Quorum {
			s.Value, s.Owner, s.Since = n.Value, n.Owner, n.Since
		}
	}
	s.Free = free >= s.Quorum
	return s
}

// whyMissing returns why a node has not answered.
func (l *Locker) whyMissing(r *round.Round, node int) error {
	return l.members.Explain(node, cmp.Or(r.Err(node), pool.ErrTimeout))
}

func (n *NodeStatus) take(in *wire.Inspection) {
	n.Value, n.TTL, n.Fence, n.Waiting, n.Waiters, n.Terms = in.Value, in.TTL, in.Fence, in.Waiting, ownersOf(in.Waiters), in.Terms
	n.Owner, n.Since = ownerAndSince(n.Value)
	for _, reader := range in.Readers {
		owner, since := ownerAndSince(reader.Value)
		n.Readers = append(n.Readers, Reader{reader.Value, owner, since, reader.TTL})
	}
}

// SemaphoreStatus is what the nodes know of a semaphore, at about one moment.
type SemaphoreStatus struct {
	Name string

	// Permits is the number of permits that most of the nodes whose votes count know. It is 0 if
	// none of them knows any: then nobody has a permit.
	Permits int

	// Slots has what [Locker.Inspect] tells of the name of each slot, but not who waits: waiters
	// wait for any. With more than 200 permits, less than 4,096 bytes of a value.
	Slots []Status

	Nodes  []SemaphoreNodeStatus // in the order of [Stats]
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
