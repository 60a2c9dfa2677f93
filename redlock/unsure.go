package redlock

import (
	"context"

	"github.com/redquorum/redquorum/clock"
)

// unsure is a release that a quorum has confirmed and the pilot has not: its answer will tell whether the lock was handed over.
// Whoever wants the lock again at once, in this process, waits for that answer, so as not to overtake the waiter; until
// as long again has passed as the quorum took to answer, so that a slow pilot does not hold him up.
type unsure struct {
	round *round
	until clock.Instant
	over  chan struct{} // closed when the answer is in; nil until somebody waits for it
}

// confirmed notes a release that is confirmed, if the pilot has not answered yet.
func (l *Locker) confirmed(lock *Lock, r *round) {
	r.mu.Lock()
	in := r.granted | r.refused | r.failed
	r.mu.Unlock()
	all := allNodes(len(l.nodes))
	if in == all || len(lock.keys) > 1 {
		return
	}
	bit := uint64(1) << l.heaviest(lock.key(), all)
	if in&bit != 0 {
		return
	}
	now := l.clock.Now()
	took := now.Sub(r.request.Deadline.Add(-lock.timeout))
	s := &l.lines
	s.mu.Lock()
	defer s.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	if (r.granted|r.refused|r.failed)&bit != 0 {
		return
	}
	// From here on, that vote finds it: Complete looks under r.mu.
	r.awaited = bit
	if s.pending == nil {
		s.pending = make(map[string]*unsure)
	}
	s.pending[lock.key()] = &unsure{round: r, until: now.Add(took)}
}

// answered ends what confirmed began. The answer itself has been noted before.
func (s *lines) answered(r *round) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.pending[r.request.Key]
	if u == nil || u.round != r {
		return // a later release took its place
	}
	delete(s.pending, r.request.Key)
	if u.over != nil {
		close(u.over)
	}
}

// sure waits until it is known whether our last release handed the lock over, as far as that is worth it.
func (l *Locker) sure(ctx context.Context, name string) {
	s := &l.lines
	s.mu.Lock()
	u := s.pending[l.config.keyPrefix+name]
	if u == nil {
		s.mu.Unlock()
		return
	}
	if u.over == nil {
		u.over = make(chan struct{})
	}
	over, left := u.over, u.until.Sub(l.clock.Now())
	s.mu.Unlock()
	if left <= 0 {
		return
	}
	late := make(chan struct{})
	timer := l.clock.AfterFunc(left, func() { close(late) })
	defer timer.Stop()
	select {
	case <-over:
	case <-late:
	case <-ctx.Done():
	case <-l.closing:
	}
}
