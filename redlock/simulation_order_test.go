package redlock_test

import "time"

// turns are what a judge asks of the order in which a lock is had.
type turns struct {
	bound int           // how often one who waits may be overtaken by those who came later; 0: any number
	wait  time.Duration // how long a wait may take; 0: any time
	most  int           // that anybody was overtaken
	slow  time.Duration // that anybody waited
}

// overtakesLocked counts a tenure against those who wait for the name, and came before its holder.
// It looks at what happens in calm times alone.
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

// turnLocked judges a wait that ends.
func (j *judge) turnLocked(w *wait) {
	j.turns.most = max(j.turns.most, w.overtaken)
	if j.turns.bound > 0 && w.overtaken > j.turns.bound {
		j.wrongLocked("%q: one who had waited since %v was overtaken %d times, at last by %s; %d were allowed",
			w.names, time.Duration(w.since), w.overtaken, w.by, j.turns.bound)
	}
	if j.stormy {
		return
	}
	waited := j.clock.Now().Sub(max(w.since, j.calm))
	j.turns.slow = max(j.turns.slow, waited)
	if j.turns.wait > 0 && waited > j.turns.wait {
		j.wrongLocked("%q: a wait took %v, %v were allowed", w.names, waited, j.turns.wait)
	}
}
