package redlock

import (
	"container/list"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redquorum/redquorum/clock"
)

// lines are the queues of those who call Lock in this process: a line for each name, first come, first served. Only the first of a line
// speaks to the nodes. To leave costs the same wherever one stands.
//
// It also marks the names whose lock this process has given to a waiter elsewhere: whoever wants them next stands behind
// him, and does not try to be faster.
type lines struct {
	clock clock.Clock

	mu      sync.Mutex // guards the fields below; taken before that of a round
	byName  map[lineName]*line
	spare   *line // not in use: the first of a line that has nobody behind costs no memory
	marks   map[string]mark
	pending map[string]*unsure

	marked atomic.Int32 // marks that there are, for a look without mu
}

// line is a queue; that it exists means that there is a first.
type line struct {
	behind  list.List    // of *place: those behind the first
	trouble *QuorumError // what the first was last told; nil while nothing failed
}

// lineName names a line: a name alone, or all names of a set. A comparable pair, for any bytes make a name.
type lineName struct {
	names int
	text  string
}

// place is one in a line behind the first.
type place struct {
	turn    chan struct{} // closed when it becomes the first
	element *list.Element // nil from then on; guarded by lines.mu
}

// mark tells that a node gave the lock to a waiter at our release, left it to other clients, or
// gave it to somebody before us.
type mark struct {
	node int32
	at   clock.Instant
}

// Limits of the marks: past them a mark is not made, and one of us may be faster than a waiter, once.
const (
	maxMarks = 4096
	markLife = clock.Instant(10e9) // one that nobody came back for

	// Two who take turns often find nobody waiting, because the other is just on his way. A mark stays for so long after the last
	// sign of another, and costs us a round trip more each time: that is less than two who are at it at once.
	markMin = clock.Instant(50e6)
)

// join takes the last place of a line; nil is the first.
func (s *lines) join(name lineName) *place {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ln := s.byName[name]; ln != nil {
		p := &place{turn: make(chan struct{})}
		p.element = ln.behind.PushBack(p)
		return p
	}
	ln := s.spare
	if s.spare = nil; ln == nil {
		ln = &line{}
	}
	if s.byName == nil {
		s.byName = make(map[lineName]*line)
	}
	s.byName[name] = ln
	return nil
}

// leave gives up a place, or that of the first, who has the lock or does not want it any more.
func (s *lines) leave(name lineName, p *place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ln := s.byName[name]
	if p != nil && p.element != nil {
		ln.behind.Remove(p.element)
		return
	}
	if next := ln.behind.Front(); next != nil {
		p := ln.behind.Remove(next).(*place)
		p.element = nil
		close(p.turn)
		return
	}
	delete(s.byName, name)
	ln.trouble = nil
	s.spare = ln
}

// report tells those behind what the first was told, for their errors.
func (s *lines) report(name lineName, trouble *QuorumError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byName[name].trouble = trouble
}

// trouble returns what the first of a line was told last, or nil.
func (s *lines) trouble(name lineName) *QuorumError {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ln := s.byName[name]; ln != nil {
		return ln.trouble
	}
	return nil
}

// tellReleased takes a node's answer to a release of ours.
func (l *Locker) tellReleased(r *round, node int32, v vote) {
	l.lines.released(r, node, v)
	if v == handed {
		l.counts.handedOver.Add(1)
		l.events.handed(strings.TrimPrefix(r.request.Key, l.config.keyPrefix))
	}
}

// overtook is told which nodes refused a lock that was won without them. The pilot among them means that somebody had its vote, whom we were
// faster than: the next time we stand behind him.
func (l *Locker) overtook(lock *Lock, refused uint64) {
	if refused == 0 || len(lock.keys) > 1 {
		return
	}
	pilot := l.heaviest(lock.key(), allNodes(len(l.nodes)))
	if refused>>pilot&1 == 1 {
		s := &l.lines
		s.mu.Lock()
		s.markLocked(lock.key(), int32(pilot))
		s.mu.Unlock()
	}
}

// released takes a node's answer to a release of ours. Of a set, the answer does not tell which of the keys were handed over: all are
// marked, for to ask the pilot first costs little where nobody waits.
func (s *lines) released(r *round, node int32, v vote) {
	if v != handed && v != spared && s.marked.Load() == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := r.request.Args[2:] // behind digest and number
	for _, arg := range keys[:r.request.Args[1].(int)] {
		key := arg.(string)
		switch old, found := s.marks[key]; {
		case v == handed, v == spared:
			s.markLocked(key, node)
		case found && v == granted && old.node == node && s.clock.Now()-old.at > markMin: // nobody waits there any more
			delete(s.marks, key)
			s.marked.Store(int32(len(s.marks)))
		}
	}
}

func (s *lines) markLocked(key string, node int32) {
	now := s.clock.Now()
	if _, found := s.marks[key]; !found && len(s.marks) >= maxMarks {
		for key, old := range s.marks {
			if now-old.at > markLife {
				delete(s.marks, key)
			}
		}
		if len(s.marks) >= maxMarks {
			return
		}
	}
	if s.marks == nil {
		s.marks = make(map[string]mark)
	}
	s.marks[key] = mark{node, now}
	s.marked.Store(int32(len(s.marks)))
}

// contended reports whether others wait for one of the names, as far as our last releases tell.
func (s *lines) contended(prefix string, names []string) bool {
	if s.marked.Load() == 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		if m, found := s.marks[prefix+name]; found && s.clock.Now()-m.at <= markLife {
			return true
		}
	}
	return false
}
