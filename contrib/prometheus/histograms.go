package prometheus

import (
	"strings"
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
// Both have the label "name" if [WithNames] says so. It is told by the hooks of one Locker or
// several ([Histograms.Hooks]). Make it with [NewHistograms]. Its methods may be called from any
// goroutine.
type Histograms struct {
	waits, holds *prometheus.HistogramVec
	label        func(name string) string // of a lock's name; nil for no label
	mostLabels   int

	mu     sync.Mutex // guards the fields below
	held   map[*redlock.Lock]time.Time
	most   int                 // the size of held at which ended locks are looked for
	labels map[string]struct{} // at most mostLabels
}

// HistogramOption configures [NewHistograms].
type HistogramOption func(*histogramConfig)

type histogramConfig struct {
	buckets    []float64
	label      func(name string) string
	mostLabels int
}

// WithBuckets sets the buckets, in seconds and ascending. By default they are doubled from a
// millisecond to 65 s.
func WithBuckets(seconds ...float64) HistogramOption {
	return func(c *histogramConfig) { c.buckets = seconds }
}

// Other is the label of the locks for which [WithNames] has no label left.
const Other = "_OTHER"

// WithNames gives both histograms the label "name". It is label(name) of a lock's name, or the name
// itself if label is nil; a permit's name is that of its semaphore with "#1" and so on. The first
// labels that are seen stay, so many at most: all later ones are [Other]. Each of them costs a time
// series for every bucket. Where names are many ("orders/42"), let label return their class
// ("orders").
func WithNames(most int, label func(name string) string) HistogramOption {
	return func(c *histogramConfig) {
		c.label, c.mostLabels = label, most
		if label == nil {
			c.label = func(name string) string { return name }
		}
	}
}

// NewHistograms returns empty histograms.
func NewHistograms(opts ...HistogramOption) *Histograms {
	c := histogramConfig{buckets: prometheus.ExponentialBuckets(0.001, 2, 17)}
	for _, opt := range opts {
		opt(&c)
	}
	var labels []string
	if c.label != nil {
		labels = []string{"name"}
	}
	histogram := func(name, help string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: namespace + name, Help: help, Buckets: c.buckets}, labels)
	}
	h := &Histograms{
		waits: histogram("lock_wait_seconds", "Waits for locks that were not free."),
		holds: histogram("lock_hold_seconds", "Time from acquisition to release or loss."),
		label: c.label, mostLabels: c.mostLabels,
		held: make(map[*redlock.Lock]time.Time), most: fewHeld, labels: make(map[string]struct{}),
	}
	if labels == nil { // they are there from the start
		h.waits.WithLabelValues()
		h.holds.WithLabelValues()
	}
	return h
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
		h.observe(h.waits, lock, d)
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
		h.observe(h.holds, lock, time.Since(began))
	}
}

func (h *Histograms) observe(histogram *prometheus.HistogramVec, lock *redlock.Lock, d time.Duration) {
	if h.label == nil {
		histogram.WithLabelValues().Observe(d.Seconds())
		return
	}
	// A name may be any bytes, a label may not.
	label := strings.ToValidUTF8(h.label(lock.Name()), "\uFFFD")
	histogram.WithLabelValues(h.bounded(label)).Observe(d.Seconds())
}

// bounded returns the label, or Other if there are too many.
func (h *Histograms) bounded(label string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, known := h.labels[label]; !known && len(h.labels) >= h.mostLabels {
		return Other
	}
	h.labels[label] = struct{}{}
	return label
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
