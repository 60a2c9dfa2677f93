package main

import (
	"fmt"
	"strings"
	"time"
)

// maxOverlapsShown bounds the list of overlaps. One is enough to know that something is broken.
const maxOverlapsShown = 20

// text returns the report for people: what was seen in a sentence or two, the phases, the totals.
func (r *report) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s\n\n", r.summary())
	if len(r.phases) > 1 {
		r.writePhases(&b)
	}
	r.writeTotals(&b)
	for _, text := range r.errors {
		fmt.Fprintf(&b, "error: %s\n", text)
	}
	if more := r.counts.failed - len(r.errors); more > 0 {
		fmt.Fprintf(&b, "and %s\n", plural(more, "more error"))
	}
	for i, o := range r.overlaps {
		if i == maxOverlapsShown {
			fmt.Fprintf(&b, "and %s\n", plural(len(r.overlaps)-i, "more overlap"))
			break
		}
		fmt.Fprintf(&b, "overlap: %s: worker %d began %v before worker %d ended\n",
			o.second.name, o.second.worker, o.first.ended.Sub(o.second.began), o.first.worker)
	}
	return b.String()
}

// summary says what was shown, and no more than that.
func (r *report) summary() string {
	var b strings.Builder
	if r.interrupted {
		fmt.Fprintf(&b, "Ended early, after %s.\n", showSeconds(r.elapsed))
	}
	least := r.fewest()
	switch gone := r.nodes - least.up; {
	case !r.embedded:
		b.WriteString("The nodes are yours, so none was stopped.")
	case gone == 0:
		b.WriteString("No node was stopped.")
	default:
		fmt.Fprintf(&b, "%s of %s nodes were gone from %s to %s, and locks were acquired %s meanwhile.",
			capital(number(gone)), number(r.nodes), showSeconds(least.from), showSeconds(least.to), plural(least.acquired, "time"))
		if r.counts.failed+r.counts.lost+r.counts.unconfirmed == 0 {
			b.WriteString("\nNo worker met an error at any time.")
		}
	}
	if len(r.overlaps) == 0 && r.holds > 0 {
		b.WriteString(" At no time did two workers hold the same lock.")
	}
	return b.String()
}

func (r *report) writePhases(b *strings.Builder) {
	fmt.Fprintf(b, "  %17s  %-8s  %8s  %10s  %9s  %9s\n", "time", "nodes up", "acquired", "per second", "wait p50", "wait p99")
	for _, p := range r.phases {
		perSecond := float64(p.acquired) / max(p.to-p.from, time.Millisecond).Seconds()
		fmt.Fprintf(b, "  %7s – %7s  %-8s  %8d  %10.0f  %9s  %9s\n", showSeconds(p.from), showSeconds(p.to),
			fmt.Sprintf("%d of %d", p.up, r.nodes), p.acquired, perSecond,
			showDuration(percentile(p.waits, 50)), showDuration(percentile(p.waits, 99)))
	}
	b.WriteString("\n")
}

func (r *report) writeTotals(b *strings.Builder) {
	row := func(name, value, meaning string) {
		fmt.Fprintln(b, strings.TrimRight(fmt.Sprintf("  %-16s %9s   %s", name, value, meaning), " "))
	}
	count := func(name string, n int, meaning string) { row(name, fmt.Sprint(n), meaning) }
	count("acquired", r.counts.acquired, "")
	count("refused", r.counts.refused, "TryLock, while another worker held it")
	count("gave up", r.counts.gaveUp, "Lock, not had within "+demoLockBound.String())
	row("wait p50", showDuration(percentile(r.waits, 50)), "in Lock, until it was had")
	row("wait p99", showDuration(percentile(r.waits, 99)), "")
	row("validity min", showDuration(smallest(r.validity)), fmt.Sprintf("left at release, of a TTL of %v", demoTTL))
	row("validity p50", showDuration(percentile(r.validity, 50)), "")
	count("unconfirmed", r.counts.unconfirmed, "Unlock, while too few nodes answered")
	count("lost", r.counts.lost, "validity ended while held")
	count("errors", r.counts.failed, "")
	count("overlaps", len(r.overlaps), fmt.Sprintf("in %s of %s", plural(r.holds, "hold"), plural(r.names, "lock")))
}

// showSeconds is a moment of the run: "3.0 s".
func showSeconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// showDuration is a short time: "12.3 ms", "1.98 s".
func showDuration(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}

// number writes small numbers out.
func number(n int) string {
	words := []string{"none", "one", "two", "three", "four", "five"}
	if n < len(words) {
		return words[n]
	}
	return fmt.Sprint(n)
}

func plural(n int, word string) string {
	if n != 1 {
		word += "s"
	}
	return fmt.Sprintf("%d %s", n, word)
}

func capital(word string) string { return strings.ToUpper(word[:1]) + word[1:] }
