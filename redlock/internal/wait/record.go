package wait

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/redlock/internal/members"
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
// marked, because asking the coordinator first costs little if nobody waits.
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

// Pending holds the pending releases: those that a quorum has confirmed and the coordinator has
// not. The coordinator's answer will tell whether the lock was handed over. A caller in this
// process that wants the lock again at once waits for that answer, so that it does not overtake the
// waiter; but no longer than the quorum took to answer, so that a slow coordinator does not hold it
// up.
//
// It is a table, so that a release costs no memory. A key whose slot a later release has taken is
// not waited for: then one caller may overtake the waiter, once.
type Pending struct {
	slots [pendingSlots]pending
}

// pendingSlots is far more than there are pending at once: each for a part of a round trip.
const pendingSlots = 128

// pending is a release, which may have the coordinator's answer by now.
type pending struct {
	mu          sync.Mutex // guards the fields below; taken before that of a release
	key         string
	release     Release // nil for none
	coordinator int
	until       clock.Instant
	over        chan struct{} // closed when the answer is in; nil while not awaited
}

// Release is a round that releases a lock. It is compared by identity.
type Release interface {
	// AwaitVote arranges for Answered to be called with a node's vote, or reports false if that
	// vote is in.
	AwaitVote(node int) bool
}

func (p *Pending) slot(key string) *pending { return &p.slots[members.Hash(key)%pendingSlots] }

// Add notes a confirmed release. Nobody waits for it past until.
func (p *Pending) Add(key string, release Release, coordinator int, until clock.Instant) {
	one := p.slot(key)
	one.mu.Lock()
	defer one.mu.Unlock()
	one.key, one.release, one.coordinator, one.until, one.over = key, release, coordinator, until, nil
}

// Answered removes what Add added. What the answer says was recorded before.
func (p *Pending) Answered(key string, release Release) {
	one := p.slot(key)
	one.mu.Lock()
	defer one.mu.Unlock()
	if one.key != key || one.release != release {
		return // replaced by a later release
	}
	one.key, one.release = "", nil
	if one.over != nil {
		close(one.over)
	}
}

// Await waits until it is known whether our last release of a key handed it over, at most until the
// limit given to Add, or until ctx or closing ends.
func (p *Pending) Await(ctx context.Context, closing <-chan struct{}, clk clock.Clock, key string) {
	one := p.slot(key)
	one.mu.Lock()
	// If AwaitVote says that the vote is out, it finds the channel: Answered waits for mu.
	left := one.until.Sub(clk.Now())
	if one.key != key || one.release == nil || left <= 0 || !one.release.AwaitVote(one.coordinator) {
		one.mu.Unlock()
		return
	}
	if one.over == nil {
		one.over = make(chan struct{})
	}
	over := one.over
	one.mu.Unlock()
	late, timer := clock.After(clk, left)
	defer timer.Stop()
	select {
	case <-over:
	case <-late:
	case <-ctx.Done():
	case <-closing:
	}
}

// Sightings are the names at which we saw a client of another library hold the lock, and when that
// was last.
type Sightings struct {
	some atomic.Bool // there are any, to read without mu

	mu     sync.Mutex // guards the field below
	byName map[string]clock.Instant
}

const (
	// A sighting counts for this long.
	sightingLife = 5 * time.Second

	maxSightings = 4096 // names; with more, all are forgotten, and must be seen again
)

// Add notes that a client of another library was seen at a name.
func (s *Sightings) Add(name string, now clock.Instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byName == nil || len(s.byName) >= maxSightings {
		s.byName = make(map[string]clock.Instant)
	}
	s.byName[name] = now
	s.some.Store(true)
}

// Has reports whether a client of another library was seen at a name within sightingLife.
func (s *Sightings) Has(name string, now clock.Instant) bool {
	if !s.some.Load() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	at, seen := s.byName[name]
	if seen && now.Sub(at) >= sightingLife {
		delete(s.byName, name)
		s.some.Store(len(s.byName) > 0)
		return false
	}
	return seen
}
