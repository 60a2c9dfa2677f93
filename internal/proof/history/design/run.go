package design

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
)

// A Report is what histories came to.
type Report struct {
	Histories uint64 // that were played, up to and with the first failure
	Faults    int64  // that happened in them
	Counts    [numCounters]int64
	Failed    bool
	Failure   uint64 // the number of the first history that broke the claim
}

// Run plays histories of a seed, from number 0, until one of them breaks a claim: the given one, or
// any if that is [Nothing]. It uses all processors. What it reports of a failure does not depend on
// how many there are.
func Run(seed, histories uint64, rules Rules, claim Claim) Report {
	var next, first atomic.Uint64
	first.Store(histories)
	var all sync.WaitGroup
	var mu sync.Mutex // guards report
	var report Report
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			w, p := &world{rules: rules}, newPlanner()
			faults := int64(0)
			for {
				i := next.Add(1) - 1
				if i >= first.Load() {
					break
				}
				w.play(p.make(seed, i))
				faults += w.faults
				if w.breaks(claim) {
					for at := first.Load(); i < at && !first.CompareAndSwap(at, i); at = first.Load() {
					}
				}
			}
			mu.Lock()
			defer mu.Unlock()
			report.Faults += faults
			for i, count := range w.counts {
				report.Counts[i] += count
			}
		})
	}
	all.Wait()
	report.Histories = histories
	if at := first.Load(); at < histories {
		report.Histories, report.Failed, report.Failure = at+1, true, at
	}
	return report
}

// breaks reports whether the history broke a claim.
func (w *world) breaks(claim Claim) bool {
	if claim == Nothing {
		return w.first != Nothing
	}
	return w.broken[claim]
}

// Tell plays one history, and returns what happened, a line for each event, and which claim was the
// first to be broken.
func Tell(seed, i uint64, rules Rules) (lines []string, broken Claim) {
	return tell(newPlanner().make(seed, i), rules)
}

func tell(p *plan, rules Rules) (lines []string, broken Claim) {
	w := &world{rules: rules, plan: p, log: &lines}
	text := fmt.Sprintf("%d nodes, %d clients", p.nodes, p.clients)
	switch {
	case p.permits > 0:
		text += fmt.Sprintf(", %d permits", p.permits)
	case p.lawless:
		text += ", with fencing; time is not as assumed"
	case p.fenced:
		text += ", with fencing"
	}
	w.say("%s", text)
	for i := range p.items {
		if it := &p.items[i]; it.kind < cuts {
			w.say("%s", it)
		}
	}
	w.play(p)
	return lines, w.first
}
