package prometheus

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/redquorum/redquorum/redlock"
)

// Histograms collects how long calls waited for locks, and how long locks were held:
//
//	redquorum_lock_wait_seconds  from the call until the lock was acquired, of calls that did not get
//	                             it at once
//	redquorum_lock_hold_seconds  from acquisition to release or loss
//
// It is told by the hooks of one Locker or several ([Histograms.Hooks]). Make it with
// [NewHistograms]. Its methods may be called from any goroutine.
type Histograms struct {
	waits, holds prometheus.Histogram

	mu   sync.Mutex // guards the fields below
	held map[*redlock.Lock]time.Time
	most int // the size of held at which ended locks are looked for
}

// NewHistograms returns empty histograms. Their buckets, in seconds and ascending, are doubled from
// a millisecond to 65 s unless given.
func NewHistograms(buckets ...float64) *Histograms {
	if len(buckets) == 0 {
		buckets = prometheus.ExponentialBuckets(0.001, 2, 17)
	}
	histogram := func(name, help string) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: namespace + name, Help: help, Buckets: buckets})
	}
	return &Histograms{
		waits: histogram("lock_wait_seconds", "Waits for locks that were not free."),
		holds: histogram("lock_hold_seconds", "Time from acquisition to release or loss."),
		held:  make(map[*redlock.Lock]time.Time), most: fewHeld,
	}
}

// fewHeld is a number of locks that are not worth looking through.
const fewHeld = 1024

// Hooks returns hooks for [redlock.WithHooks] that tell the histograms what happens, and call those
// of next as well. When hooks are dropped ([redlock.Stats.HooksDropped]), so is what they would
// have told.
func (h *Histograms) Hooks(next redlock.Hooks) redlock.Hooks {
	hooks := next
	hooks.Acquired = func(lock *redlock.Lock) {
		h.begin(lock)
		if next.Acquired != nil {
			next.Acquired(lock)
		}
	}
	hooks.Waited = func(lock *redlock.Lock, d time.Duration) {
		h.waits.Observe(d.Seconds())
		if next.Waited != nil {
			next.Waited(lock, d)
		}
	}
	hooks.Lost = func(lock *redlock.Lock, err error) {
		h.end(lock)
		if next.Lost != nil {
			next.Lost(lock, err)
		}
	}
	hooks.Released = func(lock *redlock.Lock) {
		h.end(lock)
		if next.Released != nil {
			next.Released(lock)
		}
	}
	return hooks
}

func (h *Histograms) begin(lock *redlock.Lock) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.held) >= h.most { // some may have ended unheard of: hooks can be dropped
		for held := range h.held {
			if held.Err() != nil {
				delete(h.held, held)
			}
		}
		h.most = max(2*len(h.held), fewHeld)
	}
	h.held[lock] = time.Now()
}

func (h *Histograms) end(lock *redlock.Lock) {
	h.mu.Lock()
	began, found := h.held[lock]
	delete(h.held, lock)
	h.mu.Unlock()
	if found {
		h.holds.Observe(time.Since(began).Seconds())
	}
}

// Describe sends the descriptions of both histograms.
func (h *Histograms) Describe(descs chan<- *prometheus.Desc) {
	h.waits.Describe(descs)
	h.holds.Describe(descs)
}

// Collect sends both histograms.
func (h *Histograms) Collect(metrics chan<- prometheus.Metric) {
	h.waits.Collect(metrics)
	h.holds.Collect(metrics)
}
