package demo

import (
	"fmt"
	"strings"
	"time"

	"github.com/redquorum/redquorum/cmd/redlock/internal/terminal"
	"github.com/redquorum/redquorum/internal/prose"
)

// maxOverlapsShown bounds the list of overlaps. One is enough to know that something is broken.
const maxOverlapsShown = 10

// text returns the report for people: what was seen, and the picture.
func (r *report) text(l terminal.Look) string {
	width, _ := l.Size()
	width = max(width, leastColumns+laneLabelWidth)
	var lines []string
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
	lines = append(append(lines, ""), newPicture(&r.trace, width, 0).lines()...)
	for _, fault := range r.faults() {
		lines = append(lines, terminal.Wrap(terminal.Red.Of(fault), width)...)
	}
	return "\n" + l.Text(lines)
}

func (r *report) contention() string {
	all := r.phases[0] // until a node or a holder is stopped
	if r.stop.worker != 0 {
		all.to = min(all.to, r.stop.began)
	}
	order := "each time by the worker that had waited longest"
	if r.inTurn < len(r.holds) {
		order = fmt.Sprintf("%d times by the worker that had waited longest; while nodes come and go, or on a busy machine, "+
			"that order is not promised", r.inTurn)
	}
	return fmt.Sprintf("%s wait for one lock. Acquired %s, %s. %s, %s. With all nodes up, %s.",
		prose.Plural(r.workers, "worker"), prose.Plural(len(r.holds), "time"), order,
		prose.Plural(int(r.handedOver), "vote")+" handed over", prose.Plural(int(r.polls), "poll"), waitsText(waitsOf(r.holds, 0, all.to)),
	)
}

func waitsText(ws waits) string {
	return fmt.Sprintf("wait: mean %s, p99 %s, max %s",
		showDuration(ws.mean()), showDuration(ws.percentile(99)), showDuration(ws.percentile(100)))
}

func (r *report) minority() string {
	least := r.fewest()
	gone := r.nodes - least.up
	switch {
	case !r.embedded:
		return "Not shown: the nodes are yours, so none was stopped."
	case gone == 0:
		return "No node was stopped."
	}
	ws := waitsOf(r.holds, least.from, least.to)
	noticed := "and no worker met an error"
	switch {
	case !r.calm():
		noticed = "and the errors are below"
	case r.unconfirmed > 0: // the lock was free all the same, or at the end of its TTL
		noticed = fmt.Sprintf("and the only error was %s that no quorum confirmed", prose.Plural(r.unconfirmed, "release"))
	}
	return fmt.Sprintf("%s of %s nodes were away from %s to %s: acquired %s meanwhile, %s. %s.",
		capital(number(gone)), number(r.nodes), showSeconds(least.from), showSeconds(least.to), prose.Plural(len(ws), "time"), noticed, capital(waitsText(ws)))
}

func (r *report) stoppedHolder() string {
	stop := &r.stop
	next, found := r.successor()
	switch {
	case stop.worker == 0:
		return "No holder was stopped."
	case stop.lost == 0:
		return fmt.Sprintf("Worker %d was stopped at %s.", stop.worker, showSeconds(stop.began))
	case !found:
		return fmt.Sprintf("Worker %d was stopped at %s, and lost the lock at %s.",
			stop.worker, showSeconds(stop.began), showSeconds(stop.lost))
	}
	return fmt.Sprintf(
		"Worker %d had the lock and was stopped at %s, so it was no longer renewed: "+
			"lost at %s (TTL %s), and worker %d had it %s later.",
		stop.worker, showSeconds(stop.began), showSeconds(stop.lost), showDuration(r.ttl), next.worker, showDuration(next.began-stop.lost))
}

func (r *report) fencing() string {
	stop := &r.stop
	if stop.wrote == 0 {
		return "No late write."
	}
	answer := terminal.Green.Of(answerText(stop.passed))
	if stop.passed {
		answer = terminal.Red.Of(answerText(stop.passed))
	}
	return fmt.Sprintf("Worker %d woke up at %s and wrote, unaware of that: %s by the store. The token was %d; the store had seen %d.",
		stop.worker, showSeconds(stop.wrote), answer, stop.token, stop.seen)
}

func (r *report) exclusion() string {
	switch n := len(r.overlaps); {
	case n > 0:
		return terminal.Red.Of(fmt.Sprintf("BROKEN: %s among %s.", prose.Plural(n, "overlap"), prose.Plural(len(r.holds), "hold")))
	case len(r.holds) == 0:
		return "Nobody ever held the lock."
	default:
		return terminal.Green.Of("No two holds overlap:") + fmt.Sprintf(" the times of all %d are compared, and drawn here.", len(r.holds))
	}
}

// faults has a line for everything that went wrong.
func (r *report) faults() (lines []string) {
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	for _, c := range r.changes {
		if c.err != nil {
			add("node %d could not be restarted: %v", c.node+1, c.err)
		}
	}
	for _, counted := range []struct {
		n    int
		what string
	}{
		{r.lost, "lost while held, without being stopped"},
		{r.wronged, "rejected by the store while held"},
	} {
		if counted.n > 0 {
			add("%s %s", prose.Plural(counted.n, "time"), counted.what)
		}
	}
	for _, text := range r.errors {
		add("error: %s", text)
	}
	if more := r.failed - len(r.errors); more > 0 {
		add("and %s", prose.Plural(more, "more error"))
	}
	for i, o := range r.overlaps {
		if i == maxOverlapsShown {
			add("and %s", prose.Plural(len(r.overlaps)-i, "more overlap"))
			break
		}
		add("overlap: worker %d began %v before worker %d ended, at %s",
			o.second.worker, o.first.ended-o.second.began, o.first.worker, showSeconds(o.second.began))
	}
	return lines
}

// showSeconds formats a moment of the run: "3.0 s".
func showSeconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// showDuration formats a short time: "12.3 ms", "1.98 s".
func showDuration(d time.Duration) string {
	switch {
	case d < 100*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	default:
		return fmt.Sprintf("%.2f s", d.Seconds())
	}
}

// number spells out small numbers.
func number(n int) string {
	words := []string{"none", "one", "two", "three", "four", "five"}
	if n < len(words) {
		return words[n]
	}
	return fmt.Sprint(n)
}

func capital(word string) string { return strings.ToUpper(word[:1]) + word[1:] }
