package handoff

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
)

// Record marks the keys whose lock this process has given to a waiter elsewhere: whoever wants one
// of them next stands behind that waiter, and does not try to be faster.
type Record struct {
	clock clock.Clock

	mu    sync.Mutex // guards the field below
	marks map[string]mark

	marked atomic.Int32 // marks that there are, for a look without mu
}

// mark tells that a node gave the lock to a waiter at our release, left it to other clients, or
// gave it to somebody before us.
type mark struct {
	node int
	at   clock.Instant
}

// Limits of the marks: past them a mark is not made, and one of us may be faster than a waiter,
// once.
const (
	maxMarks = 4096
	markLife = 10 * time.Second // of one that nobody came back for

	// Two who take turns often find nobody waiting, because the other is just on its way. A mark
	// stays for this long after the last sign of another, and costs us a round trip more each time:
	// less than two who are at it at once.
	markMin = 50 * time.Millisecond
)

// Released takes a node's answer to a release. Keys returns the released keys, and is called only
// where they matter. Of a set, the answer does not tell which of them were handed over: all are
// marked, because asking the pilot first costs little where nobody waits.
func (r *Record) Released(node int, v quorum.Vote, keys func() []any) {
	handed := v == quorum.Handed || v == quorum.Spared
	if !handed && r.marked.Load() == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, arg := range keys() {
		key := arg.(string)
		switch old, found := r.marks[key]; {
		case handed:
			r.markLocked(key, node)
		case found && v == quorum.Granted && old.node == node && r.clock.Now().Sub(old.at) > markMin: // nobody waits there any more
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

// Contended reports whether others wait for one of the names, as far as our last releases tell.
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
