package search

import (
	"cmp"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// A Report is what a search found.
type Report struct {
	States int
	Steps  int
	Depth  int          // the longest of the shortest paths to each state
	Count  map[Kind]int // steps by kind
	Broken string       // the claim that a step broke, or ""
	Trace  []string     // the shortest path to that step
}

func (r Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d states, %d steps, depth %d", r.States, r.Steps, r.Depth)
	for _, k := range slices.Sorted(maps.Keys(r.Count)) {
		fmt.Fprintf(&b, "\n  %9d × %v", r.Count[k], k)
	}
	for i, line := range r.Trace {
		fmt.Fprintf(&b, "\n  %2d. %s", i+1, line)
	}
	return b.String()
}

// batch is how many states a worker takes at a time. window is how many batches run before their
// new states are recorded: enough to keep workers busy, and few enough that duplicates among the
// new states need little room.
const (
	batch  = 1024
	window = 64
)

// A find is a state that a step led to and that was unknown when its batch began.
type find[S comparable] struct {
	print  fingerprint
	parent int32
	state  S
}

// yield is the result of one batch.
type yield[S comparable] struct {
	finds  []find[S]
	counts map[Kind]int
	broken int32 // the first state with a step that breaks a claim, or -1
}

// A search keeps the states of the present level and the next, and of all others the fingerprints.
type search[S comparable] struct {
	workers []worker[S]
	seen    map[fingerprint]bool
	prints  []fingerprint // of all states, in the order in which they were found
	parents []int32
	present []S // the states from first on
	next    []S
	first   int
	report  Report
}

type worker[S comparable] struct {
	model Model[S]
	names *namer[S]
}

// Run visits every reachable state, breadth first, until a step breaks a claim. Each of its workers
// has a model of its own. What it finds, and in which order, does not depend on how many there are.
func Run[S comparable](model func() Model[S]) Report {
	x := &search[S]{seen: make(map[fingerprint]bool), report: Report{Count: make(map[Kind]int)}}
	for range runtime.GOMAXPROCS(0) {
		m := model()
		x.workers = append(x.workers, worker[S]{m, newNamer(m)})
	}
	start := x.workers[0].model.Start()
	named := x.workers[0].names.name(&start)
	x.record(find[S]{x.workers[0].names.print(named), -1, *named})
	yields := make([]yield[S], window)
	for len(x.next) > 0 && x.report.Broken == "" {
		x.first += len(x.present)
		x.present, x.next = x.next, x.present[:0]
		x.level(yields)
		if len(x.next) > 0 {
			x.report.Depth++
		}
	}
	x.report.States = len(x.prints)
	tally(x.report)
	return x.report
}

// record takes a state that may be new.
func (x *search[S]) record(f find[S]) {
	if !x.seen[f.print] {
		x.seen[f.print] = true
		x.prints, x.parents = append(x.prints, f.print), append(x.parents, f.parent)
		x.next = append(x.next, f.state)
	}
}

// level takes every step from the present states.
func (x *search[S]) level(yields []yield[S]) {
	for from := 0; from < len(x.present) && x.report.Broken == ""; from += batch * window {
		some := yields[:min((len(x.present)-from+batch-1)/batch, window)]
		x.expand(some, from)
		for _, y := range some {
			for _, f := range y.finds {
				x.record(f)
			}
			for k, n := range y.counts {
				x.report.Count[k] += n
				x.report.Steps += n
			}
			if y.broken >= 0 && x.report.Broken == "" {
				x.workers[0].replay(x.pathTo(y.broken), &x.report)
			}
		}
	}
}

// expand lets the workers take batches from a place on. The yields are in the order of the states.
// Nothing writes to seen meanwhile.
func (x *search[S]) expand(yields []yield[S], from int) {
	var taken atomic.Int32
	var workers sync.WaitGroup
	for _, w := range x.workers {
		workers.Go(func() {
			for i := int(taken.Add(1)) - 1; i < len(yields); i = int(taken.Add(1)) - 1 {
				start := from + i*batch
				states := x.present[start:min(start+batch, len(x.present))]
				w.take(&yields[i], states, x.seen, int32(x.first+start))
			}
		})
	}
	workers.Wait()
}

func (w *worker[S]) take(y *yield[S], states []S, seen map[fingerprint]bool, first int32) {
	y.finds, y.broken = y.finds[:0], -1
	if y.counts == nil {
		y.counts = make(map[Kind]int)
	}
	clear(y.counts)
	for i := range states {
		parent := first + int32(i)
		w.model.Each(&states[i], func(next *S, e Event) {
			y.counts[e.Kind]++
			if e.Broken != "" {
				if y.broken < 0 {
					y.broken = parent
				}
				return
			}
			named := w.names.name(next)
			print := w.names.print(named)
			if !seen[print] {
				y.finds = append(y.finds, find[S]{print, parent, *named})
			}
		})
	}
}

func (x *search[S]) pathTo(i int32) (path []fingerprint) {
	for at := i; at > 0; at = x.parents[at] {
		path = append(path, x.prints[at])
	}
	slices.Reverse(path)
	return path
}

// replay walks a path again, and takes a step at its end that breaks a claim. Names stay the same
// along the whole trace.
func (w *worker[S]) replay(path []fingerprint, report *Report) {
	s := w.model.Start()
	for _, print := range path {
		var next S
		var step *Event
		w.model.Each(&s, func(to *S, e Event) {
			if step == nil && e.Broken == "" && w.names.print(w.names.name(to)) == print {
				next, step = *to, &e
			}
		})
		if step == nil {
			panic("search: cannot replay a path")
		}
		s = next
		report.Trace = append(report.Trace, step.String())
	}
	w.model.Each(&s, func(_ *S, e Event) {
		report.Broken = cmp.Or(report.Broken, e.Broken)
		if e.Broken != "" && len(report.Trace) == len(path) {
			report.Trace = append(report.Trace, e.String())
		}
	})
}
