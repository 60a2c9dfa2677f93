package redlock_test

import "time"

// turns are what a judge demands of the order in which clients get a lock, and what it has seen.
type turns struct {
	bound int           // how often later callers may overtake a waiter; 0: any number
	wait  time.Duration // how long a wait may take; 0: any length
	most  int           // the most that a waiter was overtaken
	slow  time.Duration // the longest wait
}

// overtakesLocked counts a tenure against the waiters for the name that called before its holder.
// It counts in calm times only.
func (j *judge) overtakesLocked(t *tenure, r *record) {
	if j.stormy || j.clock.Now() < j.calm {
		return
	}
	for _, w := range r.waiting {
		if w.since < t.since {
			w.overtaken++
			w.by = t.who
		}
	}
}

// turnLocked judges a wait at its end.
func (j *judge) turnLocked(w *wait) {
	j.turns.most = max(j.turns.most, w.overtaken)
	if j.turns.bound > 0 && w.overtaken > j.turns.bound {
		j.wrongLocked("%q: a waiter since %v was overtaken %d times, last by %s; at most %d allowed",
			w.names, time.Duration(w.since), w.overtaken, w.by, j.turns.bound)
	}
	if j.stormy {
		return
	}
	waited := j.clock.Now().Sub(max(w.since, j.calm))
	j.turns.slow = max(j.turns.slow, waited)
	if j.turns.wait > 0 && waited > j.turns.wait {
		j.wrongLocked("%q: a wait took %v, at most %v allowed", w.names, waited, j.turns.wait)
	}
}
