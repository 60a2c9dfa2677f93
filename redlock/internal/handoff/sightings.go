package handoff

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/redquorum/redquorum/clock"
)

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
