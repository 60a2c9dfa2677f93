package demo

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/cmd/redlock/internal/terminal"
)

// hold is one worker's time with the lock: [began, ended) since the start of the run, by the clock
// of this process.
type hold struct {
	worker int           // from 1
	asked  time.Duration // read right before Lock was called
	began  time.Duration // read right after Lock returned
	// Read right before the release; the end of the validity if the lock was lost.
	ended time.Duration
	lost  bool
}

func (h hold) waited() time.Duration { return h.began - h.asked }

// wait is a worker that is waiting for the lock.
type wait struct {
	worker int
	asked  time.Duration
}

// stoppage is the story of the stopped holder. What has not happened yet is zero.
type stoppage struct {
	worker int
	token  int64
	began  time.Duration
	lost   time.Duration // when the validity ended
	wrote  time.Duration // when it wrote with its token
	seen   int64         // the largest token that the store had seen before
	passed bool          // the store accepted the write
	err    error         // what the lock said when its holder finally checked
}

// event is something worth a line.
type event struct {
	at   time.Duration
	text string
}

// lines is the event below each other in this width: the text may be an error.
func (e event) lines(width int) []string {
	head := fmt.Sprintf("%7s  ", showSeconds(e.at))
	return terminal.Hang(head, e.text, max(width, leastColumns+len(head)))
}

// trace is a run up to a moment. All times are since its start.
type trace struct {
	workers, nodes int
	elapsed        time.Duration
	holds          []hold // sorted by begin; those still held end now
	waiting        []wait
	changes        []change
	stop           stoppage
	events         []event
	lost           int      // holds, except that of the stopped worker
	wronged        int      // writes of a holder that the store rejected
	unconfirmed    int      // releases that no quorum confirmed
	failed         int      // anything else
	errors         []string // the first of the failures
}

// maxErrorTexts bounds the errors shown in full; the rest is only counted.
const maxErrorTexts = 3

// recorder records what the workers do. Its methods may be called from any goroutine.
type recorder struct {
	clock clock.Clock
	start clock.Instant
	tell  func(event) // gets each event, in order; may be nil

	mu      sync.Mutex   // guards the fields below, and calling tell
	past    trace        // only holds that have ended, in that order
	current map[int]hold // by worker
	asked   map[int]time.Duration
}

func newRecorder(clk clock.Clock, workers, nodes int, tell func(event)) *recorder {
	return &recorder{
		clock: clk, start: clk.Now(), tell: tell,
		past:    trace{workers: workers, nodes: nodes},
		current: map[int]hold{}, asked: map[int]time.Duration{},
	}
}

func (r *recorder) elapsed() time.Duration { return r.clock.Now().Sub(r.start) }

// asks records that a worker is about to call Lock.
func (r *recorder) asks(worker int) {
	now := r.elapsed()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked[worker] = now
}

// begins records that the worker has acquired the lock, and returns when.
func (r *recorder) begins(worker int) (began time.Duration) {
	began = r.elapsed()
	r.mu.Lock()
	defer r.mu.Unlock()
	h := hold{worker: worker, asked: r.asked[worker], began: began}
	delete(r.asked, worker)
	r.current[worker] = h
	if stop := r.past.stop; stop.lost > 0 && stop.wrote == 0 && worker != stop.worker && !r.succeededLocked() {
		r.noteLocked(began, fmt.Sprintf("worker %d got the lock", worker))
	}
	return began
}

// succeededLocked reports whether somebody held the lock after the stopped worker lost it.
func (r *recorder) succeededLocked() bool {
	return slices.ContainsFunc(r.past.holds, func(h hold) bool { return h.began >= r.past.stop.lost })
}

// ends records the end of a hold.
func (r *recorder) ends(worker int, ended time.Duration, lost bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.current[worker]
	delete(r.current, worker)
	h.ended, h.lost = max(ended, h.began), lost
	r.past.holds = append(r.past.holds, h)
	switch {
	case !lost:
	case worker == r.past.stop.worker && r.past.stop.lost == 0:
		r.past.stop.lost = h.ended
		r.noteLocked(h.ended, fmt.Sprintf("worker %d has lost the lock: its validity has ended", worker))
	default:
		r.past.lost++
	}
}

// stopped records that a holder is stopped.
func (r *recorder) stopped(worker int, token int64) {
	now := r.elapsed()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.past.stop = stoppage{worker: worker, token: token, began: now}
	r.noteLocked(now, fmt.Sprintf("worker %d has the lock and is stopped: asleep, cut off from all nodes", worker))
}

// wroteLate records how the store answered the write of the stopped worker, and then the lock.
func (r *recorder) wroteLate(seen int64, passed bool, err error) {
	now := r.elapsed()
	r.mu.Lock()
	defer r.mu.Unlock()
	stop := &r.past.stop
	stop.wrote, stop.seen, stop.passed, stop.err = now, seen, passed, err
	r.noteLocked(now, fmt.Sprintf("worker %d wakes up and writes with its old token: %s", stop.worker, answerText(passed)))
}

func answerText(passed bool) string {
	if passed {
		return "ACCEPTED"
	}
	return "REJECTED"
}

// changed records a node that was stopped or restarted.
func (r *recorder) changed(c change, endpoint string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.past.changes = append(r.past.changes, c)
	r.noteLocked(c.at, changeText(c, endpoint))
}

// wronged records that the store rejected the write of a worker that held the lock.
func (r *recorder) wronged() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.past.wronged++
}

// unconfirmed records a release that no quorum confirmed. It happens if a lock had just enough
// votes and a node that gave one stops before the release, or if nodes are too slow.
func (r *recorder) unconfirmed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.past.unconfirmed++
}

// failed records an unexpected error. The worker no longer waits.
func (r *recorder) failed(worker int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.asked, worker)
	r.past.failed++
	if len(r.past.errors) < maxErrorTexts {
		r.past.errors = append(r.past.errors, fmt.Sprintf("worker %d: %v", worker, err))
	}
}

func (r *recorder) noteLocked(at time.Duration, text string) {
	e := event{at, text}
	r.past.events = append(r.past.events, e)
	if r.tell != nil {
		r.tell(e)
	}
}

// now returns the run up to now.
func (r *recorder) now() trace {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.past
	t.elapsed = r.elapsed()
	t.holds, t.changes, t.events = slices.Clone(t.holds), slices.Clone(t.changes), slices.Clone(t.events)
	t.errors = slices.Clone(t.errors)
	for _, h := range r.current {
		h.ended = t.elapsed
		t.holds = append(t.holds, h)
	}
	slices.SortFunc(t.holds, func(a, b hold) int { return cmp.Compare(a.began, b.began) })
	for _, worker := range slices.Sorted(maps.Keys(r.asked)) {
		t.waiting = append(t.waiting, wait{worker, r.asked[worker]})
	}
	return t
}
