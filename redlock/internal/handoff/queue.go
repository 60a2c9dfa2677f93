// Package handoff knows who waits: the queue in this process, the pilot of a name and the breaker
// for slow pilots, the messages that wake a waiter, and the record of locks that were handed over.
package handoff

import (
	"container/list"
	"strconv"
	"strings"
	"sync"
)

// Queue holds the wait queues of the calls of Lock in this process: one for each name, first come,
// first served. Only the first of a queue speaks to the nodes. Leaving is O(1).
type Queue struct {
	mu     sync.Mutex // guards the fields below
	byName map[Name]*queue
	spare  *queue // not in use: the first of a queue with nobody behind it costs no memory
}

// queue is the wait queue of a name. That it exists means that there is a first.
type queue struct {
	behind  list.List // of *Ticket: all but the first
	trouble error     // what the first was last told; nil while nothing failed
}

// Name names a queue: a name alone, or all names of a set in their order. Names may contain any
// byte, so a separator cannot join them.
type Name struct {
	names int
	text  string
}

// NameOf returns the same for the same names in the same order, and for no others.
func NameOf(names []string) Name {
	if len(names) == 1 {
		return Name{1, names[0]}
	}
	var text strings.Builder
	for _, name := range names {
		text.WriteString(strconv.Itoa(len(name)))
		text.WriteByte(':')
		text.WriteString(name)
	}
	return Name{len(names), text.String()}
}

// Ticket is a place in a queue behind the first.
type Ticket struct {
	turn    chan struct{} // closed when it is the first
	element *list.Element // nil from then on; guarded by Queue.mu
}

// Turn is closed when the ticket is the first of its queue.
func (t *Ticket) Turn() <-chan struct{} { return t.turn }

// Join takes the last place of a queue; nil is the first.
func (q *Queue) Join(name Name) *Ticket {
	q.mu.Lock()
	defer q.mu.Unlock()
	if one := q.byName[name]; one != nil {
		t := &Ticket{turn: make(chan struct{})}
		t.element = one.behind.PushBack(t)
		return t
	}
	one := q.spare
	if q.spare = nil; one == nil {
		one = &queue{}
	}
	if q.byName == nil {
		q.byName = make(map[Name]*queue)
	}
	q.byName[name] = one
	return nil
}

// Leave gives up a place. The first leaves when it has the lock, or no longer wants it.
func (q *Queue) Leave(name Name, t *Ticket) {
	q.mu.Lock()
	defer q.mu.Unlock()
	one := q.byName[name]
	if t != nil && t.element != nil {
		one.behind.Remove(t.element)
		return
	}
	if next := one.behind.Front(); next != nil {
		t := one.behind.Remove(next).(*Ticket)
		t.element = nil
		close(t.turn)
		return
	}
	delete(q.byName, name)
	one.trouble = nil
	q.spare = one
}

// Report tells those behind the first what it was told, for their errors.
func (q *Queue) Report(name Name, trouble error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.byName[name].trouble = trouble
}

// Trouble returns what the first of a queue was told last, or nil.
func (q *Queue) Trouble(name Name) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if one := q.byName[name]; one != nil {
		return one.trouble
	}
	return nil
}
