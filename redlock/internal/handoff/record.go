package handoff

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
)

// Record marks the keys whose lock this process has given to a waiter elsewhere. A caller that
// wants such a key next queues behind that waiter instead of trying to be faster.
type Record struct {
	clock clock.Clock

	mu    sync.Mutex // guards the field below
	marks map[string]mark

	marked atomic.Int32 // number of marks, to read without mu
}

// mark says that a node gave the lock to a waiter at our release, left it to other libraries'
// clients, or had given it to somebody before us.
type mark struct {
	node int
	at   clock.Instant
}

// Limits of the marks. Without a mark, a caller here may overtake a waiter, once.
const (
	maxMarks = 4096
	markLife = 10 * time.Second // of a mark whose key nobody asks for again

	// Two clients that take turns often find nobody waiting, because the other one is just on its
	// way. So a mark stays for this long after the last sign of another client. Each time it costs
	// us one more round trip: less than two clients that compete.
	markMin = 50 * time.Millisecond
)

// Released takes a node's answer to a release. Keys returns the released keys, and is called only
// if they matter. For a set, the answer does not say which of its keys were handed over: all are
// marked, because asking the pilot first costs little if nobody waits.
func (r *Record) Released(node int, v quorum.Vote, keys func() []string) {
	handed := v == quorum.Handed || v == quorum.Spared
	if !handed && r.marked.Load() == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, key := range keys() {
		switch old, found := r.marks[key]; {
		case handed:
			r.markLocked(key, node)
		case found && v == quorum.Granted && old.node == node && r.clock.Now().Sub(old.at) > markMin:
			// Nobody waits there any more.
			delete(r.marks, key)
			r.marked.Store(int32(len(r.marks)))
		}
	}
}

// Mark marks a key.
func (r *Record) Mark(key string, node int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.markLocked(key, node)
}

func (r *Record) markLocked(key string, node int) {
	now := r.clock.Now()
	if _, found := r.marks[key]; !found && len(r.marks) >= maxMarks {
		for key, old := range r.marks {
			if now.Sub(old.at) > markLife {
				delete(r.marks, key)
			}
		}
		if len(r.marks) >= maxMarks {
			return
		}
	}
	if r.marks == nil {
		r.marks = make(map[string]mark)
	}
	r.marks[key] = mark{node, now}
	r.marked.Store(int32(len(r.marks)))
}

// Contended reports whether others wait for one of the names, as far as our last releases show.
func (r *Record) Contended(prefix string, names []string) bool {
	if r.marked.Load() == 0 {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range names {
		if m, found := r.marks[prefix+name]; found && r.clock.Now().Sub(m.at) <= markLife {
			return true
		}
	}
	return false
}
