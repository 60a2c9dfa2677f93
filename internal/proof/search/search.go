// Package search visits every state that a model can reach, breadth first, until a step breaks a
// claim of the model.
package search

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// A System is a model to search. It has states of type S, each with a code of type C; two states
// have the same code only if they differ in nothing but names. Its steps are of type E, and their
// kinds of type K. Only one goroutine uses a System at a time.
type System[S any, C comparable, E Event[K], K Kind] interface {
	Start() S
	Encode(s *S) C
	Decode(code C) S
	// Each visits every step from s. visit may use next until it returns.
	Each(s *S, visit func(next *S, e E))
}

// A Kind is the kind of a step. A report counts each kind, so that a test can see that a search
// went where it was meant to go.
type Kind interface {
	~uint8
	fmt.Stringer
}

// An Event is one step. Its text is a line of a trace.
type Event[K Kind] interface {
	fmt.Stringer
	Which() K
	Broke() bool // whether the step breaks a claim
}

// A Report is what a search found.
type Report[K Kind] struct {
	States int
	Steps  int
	Depth  int       // the longest of the shortest paths to each state
	Count  map[K]int // steps by kind
	Broken bool      // whether a step broke a claim
	Trace  []string  // the shortest path to that step
}

func (r Report[K]) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d states, %d steps, depth %d", r.States, r.Steps, r.Depth)
	for k := range kinds {
		if n := r.Count[K(k)]; n > 0 {
			fmt.Fprintf(&b, "\n  %9d × %v", n, K(k))
		}
	}
	for i, line := range r.Trace {
		fmt.Fprintf(&b, "\n  %2d. %s", i+1, line)
	}
	return b.String()
}

// kinds is the largest number of kinds.
const kinds = 64

// batch is how many states a worker takes at a time. window is how many batches run before their
// new states are recorded: enough to keep workers busy, and few enough that duplicates among the
// new states need little room.
const (
	batch  = 1024
	window = 64
)

// A find is a state that a step led to and that was unknown when its batch began.
type find[C any] struct {
	code   C
	parent int32
}

// yield is the result of one batch.
type yield[C any] struct {
	finds  []find[C]
	counts [kinds]int
	broken int32 // the first state with a step that breaks a claim, or -1
}

// Run visits every reachable state, breadth first, until a step breaks a claim. It takes one system
// per worker. What it finds, and in which order, does not depend on the number of workers.
func Run[S any, C comparable, E Event[K], K Kind](systems []System[S, C, E, K]) Report[K] {
	first := systems[0].Start()
	codes := []C{systems[0].Encode(&first)}
	parents := []int32{-1}
	seen := map[C]struct{}{codes[0]: {}}
	var counts [kinds]int
	report := Report[K]{Count: make(map[K]int)}
	for from, levelEnd := 0, 1; from < len(codes) && !report.Broken; {
		to := min(from+batch*window, levelEnd)
		for _, y := range expand(systems, codes, seen, from, to) {
			for _, f := range y.finds {
				if _, known := seen[f.code]; !known {
					seen[f.code] = struct{}{}
					codes = append(codes, f.code)
					parents = append(parents, f.parent)
				}
			}
			for k, n := range y.counts {
				counts[k] += n
				report.Steps += n
			}
			if y.broken >= 0 && !report.Broken {
				report.Broken = true
				report.Trace = replay(systems[0], pathTo(codes, parents, y.broken))
			}
		}
		if from = to; from == levelEnd && levelEnd < len(codes) {
			levelEnd = len(codes)
			report.Depth++
		}
	}
	report.States = len(codes)
	states.Add(int64(report.States))
	if report.Broken {
		broken.Add(1)
	}
	for k, n := range counts {
		if n > 0 {
			report.Count[K(k)] = n
		}
	}
	return report
}

// expand takes every step from codes[from:to], in batches. The yields are in the order of the
// codes. Nothing writes to seen meanwhile.
func expand[S any, C comparable, E Event[K], K Kind](
	systems []System[S, C, E, K], codes []C, seen map[C]struct{}, from, to int,
) []yield[C] {
	yields := make([]yield[C], (to-from+batch-1)/batch)
	var taken atomic.Int32
	var workers sync.WaitGroup
	for _, sys := range systems {
		workers.Go(func() {
			for i := int(taken.Add(1)) - 1; i < len(yields); i = int(taken.Add(1)) - 1 {
				start := from + i*batch
				yields[i] = takeBatch(sys, codes[start:min(start+batch, to)], seen, int32(start))
			}
		})
	}
	workers.Wait()
	return yields
}

func takeBatch[S any, C comparable, E Event[K], K Kind](
	sys System[S, C, E, K], codes []C, seen map[C]struct{}, start int32,
) yield[C] {
	y := yield[C]{broken: -1}
	for i, code := range codes {
		parent := start + int32(i)
		s := sys.Decode(code)
		sys.Each(&s, func(next *S, e E) {
			y.counts[e.Which()]++
			if e.Broke() {
				if y.broken < 0 {
					y.broken = parent
				}
				return
			}
			to := sys.Encode(next)
			if _, known := seen[to]; !known {
				y.finds = append(y.finds, find[C]{to, parent})
			}
		})
	}
	return y
}

func pathTo[C any](codes []C, parents []int32, i int32) (path []C) {
	for at := i; at > 0; at = parents[at] {
		path = append(path, codes[at])
	}
	slices.Reverse(path)
	return path
}

// replay walks a path again, and takes a step at its end that breaks a claim. Names stay the same
// along the whole trace, which codes alone cannot provide.
func replay[S any, C comparable, E Event[K], K Kind](sys System[S, C, E, K], path []C) (trace []string) {
	s := sys.Start()
	for _, code := range path {
		var next S
		var step E
		found := false
		sys.Each(&s, func(to *S, e E) {
			if !found && !e.Broke() && sys.Encode(to) == code {
				next, step, found = *to, e, true
			}
		})
		if !found {
			panic("search: cannot replay a path")
		}
		s = next
		trace = append(trace, step.String())
	}
	last := ""
	sys.Each(&s, func(_ *S, e E) {
		if last == "" && e.Broke() {
			last = e.String()
		}
	})
	return append(trace, last)
}
