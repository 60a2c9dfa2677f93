package demo

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
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

// change is a node that was stopped or restarted.
type change struct {
	at time.Duration
	up bool
}

// trace is what happened in a run. All times are since its start.
type trace struct {
	workers int
	elapsed time.Duration
	holds   []hold // sorted by begin
	gaveUp  []hold // calls that the end of the demo cut short: those that waited had nothing
	changes []change
	stop    stoppage
	wronged bool     // the store rejected the write of a holder
	faults  []string // the first things that should not have happened, a line each
	more    int      // faults that are not listed
}

// mostFaults bounds what is listed. One is enough to know that something is broken.
const mostFaults = 10

// fault notes something that should not have happened.
func (t *trace) fault(format string, args ...any) {
	if len(t.faults) < mostFaults {
		t.faults = append(t.faults, fmt.Sprintf(format, args...))
	} else {
		t.more++
	}
}

// recorder records what happens, and tells of events as they happen. Its methods may be called from
// any goroutine.
type recorder struct {
	clock clock.Clock
	look  terminal.Look

	mu    sync.Mutex // guards the fields below; held over a write so that lines do not mix
	w     io.Writer
	err   error // the first of w
	start clock.Instant
	past  trace
}

func newRecorder(clk clock.Clock, workers int, look terminal.Look, w io.Writer) *recorder {
	return &recorder{clock: clk, look: look, w: w, past: trace{workers: workers}}
}

// begin starts the run.
func (r *recorder) begin() { r.start = r.clock.Now() }

func (r *recorder) elapsed() time.Duration { return r.clock.Now().Sub(r.start) }

// notes changes the record, and tells of an event at a moment unless the text is empty.
func (r *recorder) notes(at time.Duration, text string, change func(t *trace)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.past)
	if text != "" {
		width := r.look.Width()
		head := fmt.Sprintf("%7s  ", showSeconds(at))
		r.printLocked(terminal.Hang(head, text, max(width, leastColumns+len(head)))...)
	}
}

// fault records something that should not have happened.
func (r *recorder) fault(format string, args ...any) {
	r.notes(0, "", func(t *trace) { t.fault(format, args...) })
}

// end returns what was recorded, when all who record have ended.
func (r *recorder) end() trace {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.past.elapsed = r.elapsed()
	slices.SortFunc(r.past.holds, func(a, b hold) int {
		return cmp.Or(cmp.Compare(a.began, b.began), cmp.Compare(a.ended, b.ended))
	})
	return r.past
}

// print writes lines.
func (r *recorder) print(lines ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.printLocked(lines...)
}

func (r *recorder) printLocked(lines ...string) {
	if r.err != nil {
		return
	}
	if _, err := io.WriteString(r.w, r.look.Text(lines)); err != nil {
		r.err = fmt.Errorf("write output: %w", err)
	}
}

// failure returns why something could not be written.
func (r *recorder) failure() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// showSeconds formats a moment of the run: "3.0 s".
func showSeconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// showDuration formats a short time: "12.3 ms", "1.98 s".
func showDuration(d time.Duration) string {
	if d < time.Second {
		return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(d)/float64(time.Millisecond)), ".0") + " ms"
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}
