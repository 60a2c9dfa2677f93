package redlock_test

import (
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/proof/fake"
)

// touch is a command that replaced or deleted the key of a client that seemed to hold the lock.
type touch struct {
	at     clock.Instant
	node   int
	change fake.Change
	tenure *tenure
}

// maxTouched bounds the touches that are kept until their tenures have ended.
const maxTouched = 1000

// watch reports every key that is replaced or deleted on a node to the judge.
func (s *simulation) watch(i int, server *fake.Node) {
	server.OnChange(func(c fake.Change) { s.judge.touches(i, c) })
}

// touches records that a command replaced or deleted a key.
func (j *judge) touches(node int, c fake.Change) {
	j.mu.Lock()
	defer j.mu.Unlock()
	t := j.holds[c.Old]
	if t == nil || t.to >= 0 || len(j.touched) >= maxTouched {
		return
	}
	j.touched = append(j.touched, touch{j.clock.Now(), node, c, t})
}

// judgeTouchedLocked checks that only the holder touches the key of a valid lock. The holder's own
// release does not count: its tenure ends before the release is sent.
func (j *judge) judgeTouchedLocked() {
	for _, t := range j.touched {
		if t.at < t.tenure.to {
			j.wrongLocked("%q of %s, which held it until %v, became %q on node %d at %v",
				t.change.Key, t.tenure.who, time.Duration(t.tenure.to), t.change.New, t.node, time.Duration(t.at))
		}
	}
}
