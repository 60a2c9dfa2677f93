package handoff

import (
	"context"
	"sync"

	"github.com/redquorum/redquorum/clock"
)

// Pending holds the releases that a quorum has confirmed and the pilot has not: its answer will tell
// whether the lock was handed over. A caller in this process that wants the lock again at once waits
// for that answer, so as not to overtake the waiter; but no longer than the quorum took to answer,
// so that a slow pilot does not hold it up.
type Pending struct {
	mu    sync.Mutex // guards the field below; taken before that of a release
	byKey map[string]*pending
}

// pending is a release without the pilot's answer.
type pending struct {
	release Release
	until   clock.Instant
	over    chan struct{} // closed when the answer is in; nil until somebody waits for it
}

// Release is a round that releases a lock. It is compared by identity.
type Release interface {
	// AwaitVote makes a node's vote be told to Answered, or reports false where it is in.
	AwaitVote(node int) bool
}

// Add notes a release that is confirmed, if the pilot has not answered yet. Nobody waits for it
// past until.
func (p *Pending) Add(key string, release Release, pilot int, until clock.Instant) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// From here on, that vote finds it: Answered waits for mu.
	if !release.AwaitVote(pilot) {
		return
	}
	if p.byKey == nil {
		p.byKey = make(map[string]*pending)
	}
	p.byKey[key] = &pending{release: release, until: until}
}

// Answered ends what Add began. What the answer tells has been recorded before.
func (p *Pending) Answered(key string, release Release) {
	p.mu.Lock()
	defer p.mu.Unlock()
	one := p.byKey[key]
	if one == nil || one.release != release {
		return // a later release took its place
	}
	delete(p.byKey, key)
	if one.over != nil {
		close(one.over)
	}
}

// Await waits until it is known whether our last release of a key handed it over, as far as that is
// worth it, or ctx or closing ends.
func (p *Pending) Await(ctx context.Context, closing <-chan struct{}, clk clock.Clock, key string) {
	p.mu.Lock()
	one := p.byKey[key]
	if one == nil {
		p.mu.Unlock()
		return
	}
	if one.over == nil {
		one.over = make(chan struct{})
	}
	over, left := one.over, one.until.Sub(clk.Now())
	p.mu.Unlock()
	if left <= 0 {
		return
	}
	late, timer := clock.After(clk, left)
	defer timer.Stop()
	select {
	case <-over:
	case <-late:
	case <-ctx.Done():
	case <-closing:
	}
}
