package redlock_test

import (
	"sync"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/proof/fake"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// forces deletes a lock, whoever has it.
func forces(u *users, c *client) {
	name := c.name()
	if c.rng.IntN(10) == 0 {
		_ = c.process.current().ForceUnlock(u.base, name) //nolint:errcheck // there may be no quorum
	}
}

// forced is what ForceUnlock took from whom, by the value of the lock. When the call returned says
// little: a node that is stopped runs the script when it goes on, and may take the key from a lock
// that did not exist before.
type forced struct {
	at   map[string]clock.Instant // when a node first did
	past map[string]string        // the value that a value replaced: adoptions and what undoes them

	readers map[string][]clock.Instant // when a node took a name from its readers
}

// watchForced has the judge look at what ForceUnlock does on a node.
func (s *simulation) watchForced(i int, server *fake.Node) {
	digest := wire.Force("", 0).Script.Digest()
	var mu sync.Mutex // guards changes
	var changes []fake.Change
	var at clock.Instant // of changes
	server.OnChange(func(change fake.Change) {
		s.judge.replaces(change)
		s.noteChange(i, change)
		mu.Lock()
		defer mu.Unlock()
		if now := s.clock.Now(); now != at {
			changes, at = changes[:0], now
		}
		changes = append(changes, change)
	})
	server.OnCommand(func(command fake.Command) {
		if command.Args[0] != "EVALSHA" || command.Args[1] != digest {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		name, written := command.Args[3], false
		for _, change := range changes { // its own, or of the same instant
			if at == command.At && change.Key == name {
				s.judge.forces(change.Old, at)
				written = written || change.Old != wire.Marker
			}
		}
		if !written { // from readers to readers, the key does not change
			s.judge.forcesReaders(name, command.At)
		}
	})
}

// replaces notes that a key has another value.
func (j *judge) replaces(change fake.Change) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if change.New != "" {
		j.forced.past[change.New] = change.Old
	}
}

// forces notes that a key was taken from the lock of a value. That of the lock which it was being
// adopted from is gone with it.
func (j *judge) forces(value string, at clock.Instant) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for value != "" {
		if _, known := j.forced.at[value]; known {
			return
		}
		j.forced.at[value] = at
		value = j.forced.past[value]
	}
}

// forcesReaders notes that a name was taken from its readers, if it had any.
func (j *judge) forcesReaders(name string, at clock.Instant) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.forced.readers[name] = append(j.forced.readers[name], at)
}

// voidLocked ends the tenures of locks that somebody forced.
func (j *judge) voidLocked(name string, r *record) {
	for _, t := range r.had {
		for _, at := range j.forced.readers[name] {
			if t.shared && t.since <= at {
				t.force(at)
			}
		}
		if at, ok := j.forced.at[t.value]; ok {
			t.force(at)
		}
	}
}

// force ends a tenure that lasts until then. If it was forced more than once, the first counts.
func (t *tenure) force(at clock.Instant) {
	if t.to <= at || t.forced && t.taken <= at {
		return
	}
	t.to, t.forced, t.taken = max(t.from, at), true, at
}

// void reports whether a lock was forced before its holder heard that it had it.
func (t *tenure) void() bool { return t.forced && t.to == t.from }
