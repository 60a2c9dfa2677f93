package main

import (
	"errors"
	"sync"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/redlock"
)

// hold is one worker's time with one lock: [began, ended) on the clock of this process.
type hold struct {
	name   string
	worker int
	began  clock.Instant // read right after the lock was acquired
	ended  clock.Instant // read right before it was released; the end of its validity where it was lost
	waited bool          // by Lock, for wait; TryLock does not wait
	wait   time.Duration
}

// counts is what happened so far.
type counts struct {
	acquired    int
	refused     int // TryLock: taken
	gaveUp      int // Lock: taken for as long as it was willing to wait
	unconfirmed int // Unlock: too few nodes answered; those that did not get the release later, or forget the lock by themselves
	lost        int // while held
	failed      int // anything else
}

// maxErrorTexts bounds the errors that are shown in full; the others are only counted.
const maxErrorTexts = 5

// recorder takes down what the workers do. Its methods may be called from any goroutine.
type recorder struct {
	clock clock.Clock
	names []string

	mu       sync.Mutex // guards the fields below
	counts   counts
	times    map[string]int  // acquisitions of a name
	current  map[string]hold // by name: who holds it now
	holds    []hold          // that have ended
	validity []time.Duration // left at each release
	errors   []string        // the first ones
}

func newRecorder(clk clock.Clock, names []string) *recorder {
	return &recorder{clock: clk, names: names, times: map[string]int{}, current: map[string]hold{}}
}

// begin records that a lock was acquired.
func (r *recorder) begin(h hold) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts.acquired++
	r.times[h.name]++
	r.current[h.name] = h
}

// end records a hold that has ended, with so much validity left; none where it was lost.
func (r *recorder) end(h hold, left time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current[h.name].worker == h.worker {
		delete(r.current, h.name)
	}
	r.holds = append(r.holds, h)
	if left <= 0 {
		r.counts.lost++
	}
	r.validity = append(r.validity, max(left, 0))
}

// denied records a lock that was not had.
func (r *recorder) denied(try bool, err error) {
	if !errors.Is(err, redlock.ErrTaken) {
		r.failed(err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if try {
		r.counts.refused++
	} else {
		r.counts.gaveUp++
	}
}

// unconfirmed records a release that no quorum confirmed. It happens to a lock that had just the votes it needed when a node
// that gave one of them stops before the release, and where nodes are too slow.
func (r *recorder) unconfirmed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts.unconfirmed++
}

// failed records what should not have happened.
func (r *recorder) failed(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts.failed++
	if len(r.errors) < maxErrorTexts {
		r.errors = append(r.errors, err.Error())
	}
}

// nameState is one lock as it is now.
type nameState struct {
	name   string
	worker int // 0: free
	held   time.Duration
	times  int
}

func (r *recorder) now() (counts, []nameState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock.Now()
	states := make([]nameState, len(r.names))
	for i, name := range r.names {
		states[i] = nameState{name: name, times: r.times[name]}
		if h, ok := r.current[name]; ok {
			states[i].worker, states[i].held = h.worker, now.Sub(h.began)
		}
	}
	return r.counts, states
}
