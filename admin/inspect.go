package admin

import (
	"context"
	"fmt"
	"time"

	"github.com/redquorum/redquorum/internal/look"
	"github.com/redquorum/redquorum/internal/owner"
)

// Since is when a lock was acquired, as its value tells: by the clock of its holder, in seconds.
// Values of other libraries and without an owner do not tell.
type Since struct {
	Time   time.Time // when the attempt began; zero if the value does not tell
	Waited bool      // the attempt may have waited from then on, so the lock is held for less long
}

// Status is what the nodes know of a lock, at about one moment. Nodes whose vote does not count
// (quarantined ones, see [redlock.Stats]) are shown, but count neither for Value nor for Free.
// Within the time of [redlock.WithMinHold] a lock that was released is shown like one that is held.
type Status struct {
	Name   string
	Value  string       // what a quorum of nodes holds; empty if no value has a quorum
	Owner  string       // the owner in that value, see redlock.WithOwner; "readers" if readers hold it
	Since  Since        // since when, as that value tells
	Nodes  []NodeStatus // in the order of the Stats
	Free   bool         // a quorum of nodes holds nothing
	Quorum int          // how many nodes make a quorum
}

// NodeStatus is what one node knows of a lock.
type NodeStatus struct {
	Endpoint string        // without user and password
	Value    string        // up to 4,096 bytes; empty if the node holds nothing, or by hand (then TTL is not 0)
	Owner    string        // the owner in the value, see redlock.WithOwner
	Since    Since         // since when, as the value tells
	TTL      time.Duration // how long the node keeps the value; negative if it does not expire
	Fence    int64         // the fencing counter; 0 if there is none
	Waiting  int           // processes that wait for the lock at this node
	Waiters  []string      // the owners of up to 16 of them, in their order
	Terms    int           // terms of an election of that name on record at this node, up to 256
	Readers  []Reader      // if readers hold the lock, up to 2,000; Value is the same for all such locks then
	Err      error         // why the node did not answer, or why its answer does not count
}

// Reader is a reader that a node knows, see [redlock.Locker.TryRLock].
type Reader struct {
	Value string
	Owner string        // the owner in the value, see redlock.WithOwner
	Since Since         // since when, as the value tells
	TTL   time.Duration // how long the node keeps it
}

// Inspect asks every node who holds a lock. It changes nothing. It returns what the nodes have
// answered by the node timeout or the end of ctx. If fewer than a quorum answered, it returns that
// along with the error, [redlock.ErrNoQuorum] in a [*redlock.QuorumError].
// [Operator.InspectSemaphore] tells who has the permits of a semaphore.
func (o *Operator) Inspect(ctx context.Context, name string) (Status, error) {
	told, err := o.door.Inspect(ctx, name)
	if told.Nodes == nil {
		return Status{}, err
	}
	return statusOf(name, told), err
}

// statusOf says what the answers about a name mean.
func statusOf(name string, told look.Answers[look.Inspection]) Status {
	s := Status{Name: name, Nodes: make([]NodeStatus, len(told.Nodes)), Quorum: told.Quorum}
	held, free := map[string]int{}, 0
	for i := range told.Nodes {
		n, answer := &s.Nodes[i], &told.Nodes[i]
		n.Endpoint, n.Err = answer.Endpoint, answer.Err
		if answer.Answered {
			n.take(&answer.Told)
		}
		switch {
		case n.Err != nil:
		case !answer.Told.Held:
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

func (n *NodeStatus) take(in *look.Inspection) {
	n.Value, n.TTL, n.Fence, n.Waiting, n.Waiters, n.Terms = in.Value, in.TTL, in.Fence, in.Waiting, ownersOf(in.Waiters), in.Terms
	n.Owner, n.Since = ownerAndSince(n.Value)
	for _, reader := range in.Readers {
		owner, since := ownerAndSince(reader.Value)
		n.Readers = append(n.Readers, Reader{reader.Value, owner, since, reader.TTL})
	}
}

func ownerAndSince(value string) (string, Since) {
	name, began, waited := owner.Of(value)
	return owner.Shown(name), Since{began, waited}
}

// ownersOf returns the owners of waiters, of what nodes tell of them.
func ownersOf(texts []string) []string {
	for i, text := range texts {
		name, _, _ := owner.Split(text)
		texts[i] = owner.Shown(name)
	}
	return texts
}

// SemaphoreStatus is what the nodes know of a semaphore, at about one moment.
type SemaphoreStatus struct {
	Name string

	// Permits is the number of permits that most of the nodes whose votes count know. It is 0 if
	// none of them knows any: then nobody has a permit.
	Permits int

	// Slots has what [Operator.Inspect] tells of the name of each slot, but not who waits: waiters
	// wait for any. With more than 200 permits, less than 4,096 bytes of a value.
	Slots []Status

	Nodes  []SemaphoreNodeStatus // in the order of the Stats
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

// InspectSemaphore asks every node who holds the permits of a semaphore, like [Operator.Inspect].
// It tells the number of permits that the nodes know, whatever number a program asks with.
func (o *Operator) InspectSemaphore(ctx context.Context, name string) (SemaphoreStatus, error) {
	told, err := o.door.InspectPermits(ctx, name)
	if told.Nodes == nil {
		return SemaphoreStatus{}, err
	}
	s := SemaphoreStatus{Name: name, Quorum: told.Quorum, Nodes: make([]SemaphoreNodeStatus, len(told.Nodes))}
	votes := map[int]int{} // for each number of permits
	for i, node := range told.Nodes {
		n := &s.Nodes[i]
		*n = SemaphoreNodeStatus{node.Endpoint, len(node.Told.Slots), node.Told.Waiting, ownersOf(node.Told.Waiters), node.Err}
		if n.Err == nil && n.Permits > 0 {
			votes[n.Permits]++
		}
	}
	for number, nodes := range votes {
		if most := votes[s.Permits]; nodes > most || nodes == most && number > s.Permits {
			s.Permits = number
		}
	}
	for slot := range s.Permits {
		s.Slots = append(s.Slots, statusOf(fmt.Sprintf("%s#%d", name, slot+1), slotOf(told, slot)))
	}
	return s, err
}

// slotOf returns what the nodes know of one slot. A slot beyond the number that a node knows is
// free there.
func slotOf(told look.Answers[look.Permits], slot int) look.Answers[look.Inspection] {
	of := look.Answers[look.Inspection]{Quorum: told.Quorum}
	for _, node := range told.Nodes {
		answer := look.Answer[look.Inspection]{Endpoint: node.Endpoint, Answered: node.Answered, Err: node.Err}
		if slot < len(node.Told.Slots) {
			answer.Told = node.Told.Slots[slot]
		}
		of.Nodes = append(of.Nodes, answer)
	}
	return of
}
