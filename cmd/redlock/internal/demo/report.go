package demo

import (
	"errors"
	"fmt"
	"time"

	"github.com/redquorum/redquorum/cmd/redlock/internal/terminal"
	"github.com/redquorum/redquorum/internal/prose"
	"github.com/redquorum/redquorum/redlock"
)

var (
	errOverlap         = errors.New("a lock had two holders at once")
	errNothingAcquired = errors.New("no lock was acquired")
	errStalePassed     = errors.New("the store accepted a write with a stale token")
	errWronged         = errors.New("the store rejected a write of the lock's holder")
	errNotLost         = errors.New("the stopped holder did not lose the lock")
	errNoLateWrite     = errors.New("the stopped holder never made its late write")
)

// report judges a finished trace.
type report struct {
	trace
	interrupted bool
	ttl         time.Duration
	handedOver  uint64 // summed over all Lockers
	polls       uint64
}

// err is the verdict: nil if all went as it should. A demo that was ended early is not blamed for
// what it did not get to.
func (r *report) err() error {
	stop := &r.stop
	switch {
	case len(overlaps(r.holds)) > 0:
		return errOverlap
	case stop.passed:
		return errStalePassed
	case r.wronged:
		return errWronged
	case len(r.holds) == 0:
		return errNothingAcquired
	case stop.wrote > 0 && !errors.Is(stop.err, redlock.ErrLost):
		return errNotLost
	case stop.wrote == 0 && !r.interrupted:
		return errNoLateWrite
	default:
		return nil
	}
}

// overlaps has a line for each hold that began before an earlier one had ended, of holds that are
// sorted. Holds that touch do not overlap, and an empty hold overlaps nothing.
func overlaps(holds []hold) (lines []string) {
	var last hold // the one that ends last
	for _, h := range holds {
		if h.began < last.ended && h.began < h.ended {
			lines = append(lines, fmt.Sprintf("overlap: worker %d began %v before worker %d ended, at %s",
				h.worker, last.ended-h.began, last.worker, showSeconds(h.began)))
		}
		if h.ended > last.ended {
			last = h
		}
	}
	return lines
}

// acquired returns how often the lock was acquired in [from, to), and the longest wait before.
func (r *report) acquired(from, to time.Duration) (times int, longest time.Duration) {
	for _, h := range r.holds {
		if from <= h.began && h.began < to {
			times++
			longest = max(longest, h.began-h.asked)
		}
	}
	return times, longest
}

// lines returns the report for people: what was seen, and the picture.
func (r *report) lines(look terminal.Look) (lines []string) {
	width := look.Width()
	width = max(width, leastColumns+laneLabelWidth)
	lines = append(lines, "")
	if r.interrupted {
		lines = append(lines, terminal.Yellow.Of(fmt.Sprintf("Ended early, after %s.", showSeconds(r.elapsed))))
	}
	for _, topic := range []struct{ heading, text string }{
		{"contention", r.contention()},
		{"dead minority", r.minority()},
		{"stopped holder", r.stoppedHolder()},
		{"fencing", r.fencing()},
		{"exclusion", r.exclusion()},
	} {
		heading := terminal.Bold.Of(fmt.Sprintf("%-*s", laneLabelWidth+3, topic.heading))
		lines = append(lines, terminal.Hang(heading, topic.text, width)...)
	}
	lines = append(append(lines, ""), newPicture(&r.trace, width).lines()...)
	wrong := r.trace
	for _, line := range overlaps(r.holds) {
		wrong.fault("%s", line)
	}
	if wrong.more > 0 {
		wrong.faults = append(wrong.faults, "and "+prose.Plural(wrong.more, "more fault"))
	}
	for _, fault := range wrong.faults {
		lines = append(lines, terminal.Wrap(terminal.Red.Of(fault), width)...)
	}
	return lines
}

func (r *report) contention() string {
	calm := r.elapsed // until a node is stopped
	if len(r.changes) > 0 {
		calm = r.changes[0].at
	}
	_, longest := r.acquired(0, calm)
	return fmt.Sprintf("%s wait for one lock. Acquired %s; %s, %s. With all nodes up, the longest wait was %s.",
		prose.Plural(r.workers, "worker"), prose.Plural(len(r.holds), "time"), prose.Plural(int(r.handedOver), "vote")+" handed over",
		prose.Plural(int(r.polls), "poll"), showDuration(longest))
}

// minority is about the time between the second change, by which two nodes are away, and the third,
// by which one is back.
func (r *report) minority() string {
	if len(r.changes) < 2 {
		return "Not shown: the demo ended before."
	}
	from, to := r.changes[1].at, r.elapsed
	if len(r.changes) > 2 {
		to = r.changes[2].at
	}
	times, longest := r.acquired(from, to)
	met := "and no worker met an error"
	if len(r.faults) > 0 {
		met = "and what went wrong is below"
	}
	return fmt.Sprintf("Two of five nodes were away from %s to %s: acquired %s meanwhile, %s. The longest wait was %s.",
		showSeconds(from), showSeconds(to), prose.Plural(times, "time"), met, showDuration(longest))
}

func (r *report) stoppedHolder() string {
	stop := &r.stop
	text := fmt.Sprintf("Worker %d had the lock and was stopped at %s, so it was no longer renewed", stop.worker, showSeconds(stop.began))
	switch {
	case stop.worker == 0:
		return "Not shown: the demo ended before."
	case stop.lost == 0:
		return text + "."
	}
	text += fmt.Sprintf(": lost at %s (TTL %s)", showSeconds(stop.lost), showDuration(r.ttl))
	for _, h := range r.holds {
		if h.began >= stop.lost && h.worker != stop.worker {
			return text + fmt.Sprintf(", and worker %d had it %s later.", h.worker, showDuration(h.began-stop.lost))
		}
	}
	return text + "."
}

func (r *report) fencing() string {
	stop := &r.stop
	if stop.wrote == 0 {
		return "No late write."
	}
	answer := terminal.Green.Of("REJECTED")
	if stop.passed {
		answer = terminal.Red.Of("ACCEPTED")
	}
	return fmt.Sprintf("Worker %d woke up at %s and wrote, unaware of that: %s by the store. The token was %d; the store had seen %d.",
		stop.worker, showSeconds(stop.wrote), answer, stop.token, stop.seen)
}

func (r *report) exclusion() string {
	switch n := len(overlaps(r.holds)); {
	case n > 0:
		return terminal.Red.Of(fmt.Sprintf("BROKEN: %s among %s.", prose.Plural(n, "overlap"), prose.Plural(len(r.holds), "hold")))
	case len(r.holds) == 0:
		return "Nobody ever held the lock."
	default:
		return terminal.Green.Of("No two holds overlap:") + fmt.Sprintf(" the times of all %d are compared, and drawn here.", len(r.holds))
	}
}
