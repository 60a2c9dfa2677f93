package redlock_test

import (
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/fakenode"
)

// touch is a command that replaced or deleted the key of somebody who seemed to hold it.
type touch struct {
	at     clock.Instant
	node   int
	change fakenode.Change
	tenure *tenure
}

// maxTouched bounds what is kept until the tenures have ended.
const maxTouched = 1000

// watch has the judge look at every key that is replaced or deleted on a node.
func (s *simulation) watch(i int, server *fakenode.Node) {
	server.OnChange(func(c fakenode.Change) { s.judge.touches(i, c) })
}

// touches notes that a command replaced or deleted a key.
func (j *judge) touches(node int, c fakenode.Change) {
	j.mu.Lock()
	defer j.mu.Unlock()
	t := j.holds[c.Old]
	if t == nil || t.to >= 0 || len(j.touched) >= maxTouched {
		return
	}
	j.touched = append(j.touched, touch{j.clock.Now(), node, c, t})
}

// judgeTouchedLocked asks that nobody touches the key of a valid lock but its holder, whose tenure
// ends before its release is sent.
func (j *judge) judgeTouchedLocked() {
	for _, t := range j.touched {
		if t.at < t.tenure.to {
			j.wrongLocked("%q of %s, which had it until %v, was made %q on node %d at %v",
				t.change.Key, t.tenure.who, time.Duration(t.tenure.to), t.change.New, t.node, time.Duration(t.at))
		}
	}
}
