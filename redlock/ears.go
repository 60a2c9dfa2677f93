package redlock

import (
	"context"
	"crypto/rand"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/pipeline"
)

// ears hear from the nodes that a lock was handed over to one who waits here: a subscription per node, made when the first waits there
// and kept. Nothing depends on a message: who hears nothing asks again by himself.
type ears struct {
	locker  *Locker
	process string // names this Locker on the wait lists; the channel that it listens on

	mu      sync.Mutex // guards the fields below
	ears    []*ear     // by node; nil where nobody has waited yet
	byValue map[string]*waiter
}

// ear is the subscription at one node. It implements pipeline.Listener.
type ear struct {
	ears      *ears
	node      int
	sub       *pipeline.Subscription
	settled   chan struct{} // closed once it is known whether it hears anything
	told      bool          // settled is closed; of the subscription's goroutine only
	listening atomic.Bool
}

const wakeChannel = "redquorum:wake:"

func newEars(l *Locker) *ears {
	return &ears{
		locker: l, process: rand.Text(),
		ears: make([]*ear, len(l.nodes)), byValue: make(map[string]*waiter),
	}
}

// listen returns the name by which a node can wake us, or "" where it cannot. It waits for a subscription that is being made,
// until a deadline.
func (e *ears) listen(ctx context.Context, node int, deadline clock.Instant) string {
	at := e.at(node)
	select {
	case <-at.settled:
	default:
		l := e.locker
		over := make(chan struct{})
		timer := l.clock.AfterFunc(deadline.Sub(l.clock.Now()), func() { close(over) })
		defer timer.Stop()
		select {
		case <-at.settled:
		case <-over:
		case <-ctx.Done():
		case <-l.closing:
		}
	}
	if at.listening.Load() {
		return e.process
	}
	return ""
}

func (e *ears) at(node int) *ear {
	e.mu.Lock()
	defer e.mu.Unlock()
	at := e.ears[node]
	if at == nil {
		at = &ear{ears: e, node: node, settled: make(chan struct{})}
		e.ears[node] = at
		at.sub = e.locker.nodes[node].Subscribe(wakeChannel+e.process, at)
	}
	return at
}

// await makes a message for the value wake w. A value is awaited before it is first sent to a node.
func (e *ears) await(value string, w *waiter) {
	e.mu.Lock()
	e.byValue[value] = w
	e.mu.Unlock()
}

// forget ends that. What w was not yet told, it will not be.
func (e *ears) forget(value string, w *waiter) {
	e.mu.Lock()
	delete(e.byValue, value)
	e.mu.Unlock()
	select {
	case <-w.woken:
	default:
	}
}

// close ends all subscriptions. Nobody waits any more.
func (e *ears) close() {
	e.mu.Lock()
	all := e.ears
	e.mu.Unlock()
	for _, at := range all {
		if at != nil {
			_ = at.sub.Close() //nolint:errcheck // always nil: it is closed or was
		}
	}
}

// Listening is called when messages will be heard from now on. Those who wait at this node ask again: what was
// published before was lost, and they may not be on the list.
func (at *ear) Listening() {
	at.listening.Store(true)
	at.askAgain()
	at.settle() // those who wait for this ask anyway, and find that they have been told to
}

// Deaf is called when nothing is heard, again and again. Those who wait at this node ask again when that begins: it may be gone, and then
// they turn to another.
func (at *ear) Deaf(error) {
	if at.listening.Swap(false) {
		at.askAgain()
	}
	at.settle()
}

func (at *ear) askAgain() {
	at.ears.mu.Lock()
	defer at.ears.mu.Unlock()
	for _, w := range at.ears.byValue {
		if node := int(w.at.Load()); node == at.node || node == everyNode {
			signal(w.again)
		}
	}
}

func (at *ear) settle() {
	if !at.told {
		at.told = true
		close(at.settled)
	}
}

// Heard is called with the value that a key was given to. A value that nobody awaits was that of
// one who gave up, and whose leaving is on its way to the node; or of one who found out by asking,
// and holds the lock: so nothing is done about it. Behind a "?" it is that of one who is to ask
// again (others.lua); but a value of WithValue may begin with that, too.
func (at *ear) Heard(value string) {
	at.ears.mu.Lock()
	defer at.ears.mu.Unlock()
	w, asks := at.ears.byValue[value], false
	if w == nil {
		value, asks = strings.CutPrefix(value, "?")
		w = at.ears.byValue[value]
	}
	switch {
	case w == nil:
	case asks:
		signal(w.again)
	default:
		signal(w.woken)
	}
}

// signal fills a channel with room for one.
func signal(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}
