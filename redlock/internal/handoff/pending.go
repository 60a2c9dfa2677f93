package handoff

import (
	"context"
	"sync"

	"github.com/redquorum/redquorum/clock"
)

// Pending holds the pending releases: those that a quorum has confirmed and the pilot has not. The
// pilot's answer will tell whether the lock was handed over. A caller in this process that wants
// the lock again at once waits for that answer, so that it does not overtake the waiter; but no
// longer than the quorum took to answer, so that a slow pilot does not hold it up.
type Pending struct {
	mu    sync.Mutex // guards the field below; taken before that of a release
	byKey map[string]*pending
}

// pending is a release without the pilot's answer.
type pending struct {
	release Release
	until   clock.Instant
	over    chan struct{} // closed when the answer is in; nil while not awaited
}

// Release is a round that releases a lock. It is compared by identity.
type Release interface {
	// AwaitVote arranges for Answered to be called with a node's vote, or reports false if that
	// vote is in.
	AwaitVote(node int) bool
}

// Add notes a confirmed release, unless the pilot has already answered. Nobody waits for it past
// until.
func (p *Pending) Add(key string, release Release, pilot int, until clock.Instant) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// From here on, that vote finds the entry: Answered waits for mu.
	if !release.AwaitVote(pilot) {
		return
	}
	if p.byKey == nil {
		p.byKey = make(map[string]*pending)
	}
	p.byKey[key] = &pending{release: release, until: until}
}

// Answered removes what Add added. What the answer says was recorded before.
func (p *Pending) Answered(key string, release Release) {
	p.mu.Lock()
	defer p.mu.Unlock()
	one := p.byKey[key]
	if one == nil || one.release != release {
		return // replaced by a later release
	}
	delete(p.byKey, key)
	if one.over != nil {
		close(one.over)
	}
}

// Await waits until it is known whether our last release of a key handed it over, at most until the
// limit given to Add, or until ctx or closing ends.
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
