package wait

import (
	"container/list"
	"strconv"
	"strings"
	"sync"
)

// Queue holds the wait queues of this process's calls of Lock: one for each name, first come, first
// served. Only the first in a queue talks to the nodes. Leaving is O(1).
type Queue struct {
	mu     sync.Mutex // guards the fields below
	byName map[Name]*queue
	spare  *queue // reused by the next queue, so that an uncontended Lock allocates none
}

// queue is the wait queue of a name. It exists while there is a first.
type queue struct {
	behind  list.List // of *Ticket: all but the first
	trouble error     // the last failure of the first; nil while nothing failed
}

// Name names a queue: a single name, all names of a set in their order, or a semaphore. Names may
// contain any byte, so a separator cannot join them.
type Name struct {
	names int // of a semaphore: its permits, negative
	text  string
}

// NameOfSemaphore returns the name of the queue for a semaphore with so many permits. Waiters with
// different numbers must not wait for each other: one of them will be refused.
func NameOfSemaphore(name string, permits int) Name { return Name{-permits, name} }

// NameOf returns equal values for the same names in the same order, and for no others.
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

// Ticket is a position in a wait queue behind the first.
type Ticket struct {
	turn    chan struct{} // closed when it becomes the first
	element *list.Element // nil from then on; guarded by Queue.mu
}

// Turn returns a channel that is closed when the ticket becomes the first of its queue.
func (t *Ticket) Turn() <-chan struct{} { return t.turn }

// Join joins the end of a queue. It returns nil to the first.
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

// Leave leaves a queue, with the result of Join. The first leaves when it has the lock, or no
// longer wants it.
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

// Report sets the last failure of the first, for the errors of those behind it.
func (q *Queue) Report(name Name, trouble error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.byName[name].trouble = trouble
}

// Trouble returns the last failure of the first of a queue, or nil.
func (q *Queue) Trouble(name Name) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if one := q.byName[name]; one != nil {
		return one.trouble
	}
	return nil
}

// Crowds are the readers of a process that wait, by the key of their lock. All of them can be
// served at once, so each has a place at the coordinator and is woken by itself. But only the first
// of a crowd polls, as one waiter of a process does for a mutex. When it leaves, the next one asks
// at once, and polls from then on.
type Crowds struct {
	mu    sync.Mutex // guards the fields below
	byKey map[string]*list.List
}

// InCrowd is the place of a reader in its crowd.
type InCrowd struct {
	crowds *Crowds
	key    string
	place  *list.Element // its value is the reader's *Wakeup
}

// Join adds a reader.
func (c *Crowds) Join(key string, w *Wakeup) *InCrowd {
	c.mu.Lock()
	defer c.mu.Unlock()
	crowd := c.byKey[key]
	if crowd == nil {
		if c.byKey == nil {
			c.byKey = make(map[string]*list.List)
		}
		crowd = list.New()
		c.byKey[key] = crowd
	}
	return &InCrowd{c, key, crowd.PushBack(w)}
}

// Polls reports whether the reader is the one that polls.
func (in *InCrowd) Polls() bool {
	in.crowds.mu.Lock()
	defer in.crowds.mu.Unlock()
	return in.crowds.byKey[in.key].Front() == in.place
}

// Leave removes the reader. All others are made to ask at once if it got the lock because it asked:
// messages may not arrive, and the lock is theirs as well.
func (in *InCrowd) Leave(asked bool) {
	c := in.crowds
	c.mu.Lock()
	defer c.mu.Unlock()
	crowd := c.byKey[in.key]
	polled := crowd.Front() == in.place
	crowd.Remove(in.place)
	if crowd.Len() == 0 {
		delete(c.byKey, in.key)
	}
	for next := crowd.Front(); next != nil && (polled || asked); next = next.Next() {
		signal(next.Value.(*Wakeup).Again)
		polled = false
	}
}
