package handoff

import (
	"container/list"
	"sync"
)

// Crowds are the readers of a process that wait, by the key of their lock. All of them can be
// served at once, so each has a place at the pilot and is woken by itself. But only the first of a
// crowd polls, as one waiter of a process does for a mutex. When it leaves, the next one asks at
// once, and polls from then on.
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
