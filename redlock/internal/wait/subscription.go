package wait

import (
	"context"
	"crypto/rand"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
)

// Subscriptions wake waiters of this process when a node has handed them a lock. There is one per
// node, made when the first waiter waits there, and kept. Nothing depends on a message: a waiter
// that gets none polls.
type Subscriptions struct {
	clock   clock.Clock
	members Members
	channel string          // prefix of the channel, without the process
	process string          // names this process on the wait lists
	closing <-chan struct{} // ends waiting for a subscription

	mu      sync.Mutex                     // guards the fields below
	byNode  [quorum.MaxNodes]*subscription // nil where nobody has waited yet
	byValue map[string]*Wakeup
}

// subscription is the subscription at one node. It implements pipeline.Listener.
type subscription struct {
	all     *Subscriptions
	node    int
	of      *pipeline.Node
	wire    *pipeline.Subscription
	settled chan struct{} // closed once it is known whether messages arrive
	told    bool          // settled is closed; used by the subscription's goroutine only
	inForce atomic.Bool
}

// Wakeup wakes one waiter.
type Wakeup struct {
	Handed chan struct{} // signalled when the lock was handed over
	Again  chan struct{} // signalled when the waiter must ask again

	at   atomic.Int32 // the node that it waits at, or everywhere
	slot atomic.Int32 // of a semaphore: the one that was handed over last
}

// Slot returns the slot of a semaphore that was handed over. The message is no vote: the waiter
// asks for the slot by its number.
func (w *Wakeup) Slot() int { return int(w.slot.Load()) }

// everywhere is for a waiter with a place at each node.
const everywhere = -1

// NewWakeup returns the wakeup of one waiter.
func NewWakeup() *Wakeup {
	return &Wakeup{Handed: make(chan struct{}, 1), Again: make(chan struct{}, 1)}
}

// WaitAt sets the node at which the waiter waits from now on.
func (w *Wakeup) WaitAt(node int) { w.at.Store(int32(node)) }

// WaitEverywhere makes the waiter wait at all nodes from now on.
func (w *Wakeup) WaitEverywhere() { w.at.Store(everywhere) }

// ClearAgain clears Again: the waiter is about to ask again.
func (w *Wakeup) ClearAgain() {
	select {
	case <-w.Again:
	default:
	}
}

// NewSubscriptions returns the subscriptions of a process, which gets a random name. Its channel is
// the prefix and that name. Closing ends the waiting for a subscription.
func NewSubscriptions(clk clock.Clock, ms Members, channel string, closing <-chan struct{}) *Subscriptions {
	return &Subscriptions{
		clock: clk, members: ms, channel: channel, process: rand.Text(), closing: closing, byValue: make(map[string]*Wakeup),
	}
}

// Process returns the name of this process on the wait lists.
func (s *Subscriptions) Process() string { return s.process }

// Listen returns the name by which a node can wake us, or "" if it cannot. It waits for a
// subscription that is being made, until a deadline.
func (s *Subscriptions) Listen(ctx context.Context, node int, deadline clock.Instant) string {
	sub := s.at(node)
	select {
	case <-sub.settled:
	default:
		over, timer := clock.After(s.clock, deadline.Sub(s.clock.Now()))
		defer timer.Stop()
		select {
		case <-sub.settled:
		case <-over:
		case <-ctx.Done():
		case <-s.closing:
		}
	}
	if sub.inForce.Load() {
		return s.process
	}
	return ""
}

// ListenAt is Listen for several nodes. It returns those that can wake us.
func (s *Subscriptions) ListenAt(ctx context.Context, nodes quorum.NodeSet, deadline clock.Instant) (listening quorum.NodeSet) {
	for i := range nodes.Nodes() {
		s.at(i) // subscribe at all nodes at once
	}
	for i := range nodes.Nodes() {
		if s.Listen(ctx, i, deadline) != "" {
			listening.Add(i)
		}
	}
	return listening
}

func (s *Subscriptions) at(node int) *subscription {
	s.mu.Lock()
	defer s.mu.Unlock()
	sub, of := s.byNode[node], s.members.Nodes()[node]
	if sub == nil || sub.of != of { // that of a node that was closed has ended
		sub = &subscription{all: s, node: node, of: of, settled: make(chan struct{})}
		s.byNode[node] = sub
		sub.wire = of.Subscribe(s.channel+s.process, sub)
	}
	return sub
}

// Await makes a message for the value wake w. A value must be awaited before it is first sent to a
// node.
func (s *Subscriptions) Await(value string, w *Wakeup) {
	s.mu.Lock()
	s.byValue[value] = w
	s.mu.Unlock()
}

// Forget ends Await. A message that w has not taken is dropped.
func (s *Subscriptions) Forget(value string, w *Wakeup) {
	s.mu.Lock()
	delete(s.byValue, value)
	s.mu.Unlock()
	select {
	case <-w.Handed:
	default:
	}
}

// Close ends all subscriptions. It is called when nobody waits any more.
func (s *Subscriptions) Close() {
	s.mu.Lock()
	all := s.byNode
	s.mu.Unlock()
	for _, sub := range all {
		if sub != nil {
			_ = sub.wire.Close() //nolint:errcheck // always nil
		}
	}
}

// Subscribed is called when messages arrive from now on. Waiters at this node ask again: what was
// published before was lost, and they may not be on the list.
func (sub *subscription) Subscribed() {
	sub.inForce.Store(true)
	sub.askAgain()
	sub.settle() // after askAgain: waiters for this ask next, and clear Again then
}

// Unsubscribed is called, possibly repeatedly, when messages do not arrive. The first time, waiters
// at this node ask again: the node may be gone, and then they turn to another.
func (sub *subscription) Unsubscribed(error) {
	if sub.inForce.Swap(false) {
		sub.askAgain()
	}
	sub.settle()
}

func (sub *subscription) askAgain() {
	sub.all.mu.Lock()
	defer sub.all.mu.Unlock()
	for _, w := range sub.all.byValue {
		if node := int(w.at.Load()); node == sub.node || node == everywhere {
			signal(w.Again)
		}
	}
}

func (sub *subscription) settle() {
	if !sub.told {
		sub.told = true
		close(sub.settled)
	}
}

// Message is called with the value to which a key was given. If nobody awaits the value, its waiter
// has given up, and its release is on its way to the node; or it found out by asking, and holds the
// lock. So there is nothing to do. After a "?" comes the value of a waiter that must ask again
// (others.lua); after a "#" come the slot of a semaphore, a space and the value (permits.lua).
func (sub *subscription) Message(message string) {
	sub.all.mu.Lock()
	defer sub.all.mu.Unlock()
	value, asks := strings.CutPrefix(message, "?")
	w := sub.all.byValue[value]
	if slot, value, ok := readPermit(message); ok {
		if w = sub.all.byValue[value]; w != nil {
			w.slot.Store(slot)
		}
	}
	switch {
	case w == nil:
	case asks:
		signal(w.Again)
	default:
		signal(w.Handed)
	}
}

// readPermit reads the message about a slot of a semaphore.
func readPermit(message string) (slot int32, value string, ok bool) {
	number, value, ok := strings.Cut(message, " ")
	if !ok || !strings.HasPrefix(number, "#") {
		return 0, "", false
	}
	n, err := strconv.ParseInt(number[1:], 10, 32)
	return int32(n), value, err == nil && n > 0
}

// signal signals a channel with room for one.
func signal(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}
