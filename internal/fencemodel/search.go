package fencemodel

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// A system is what can be searched: states of type S, each with a code that states which differ by names only share.
type system[S any, C comparable] interface {
	start() S
	encode(s *S) C
	decode(code C) S
	each(s *S, visit func(next *S, e event)) // every step from s; next is the visitor's until it returns
}

// A claim is what a step broke.
type claim uint8

const (
	noClaim claim = iota
	unique        // two acquisitions have one token
	ordered       // an acquisition has no larger token than one that was over before it began
)

func (c claim) String() string {
	return [...]string{"nothing", "tokens are unique", "a later acquisition has a larger token"}[c]
}

// An event is one step, for people.
type event struct {
	kind   Kind
	client int8  // or the ghost
	node   int8  // or nowhere
	number int64 // fence, token or target
	broken claim
}

const nowhere = -1

func (e event) String() string {
	who := "late"
	if e.client > ghostClient {
		who = "client " + string(rune('A'+e.client))
	}
	text := who + ": " + kindNames[e.kind]
	if e.node != nowhere {
		text += fmt.Sprintf(" at node %d", e.node+1)
	}
	if e.number > 0 {
		text += fmt.Sprintf(" (%d)", e.number)
	}
	if e.broken != noClaim {
		text += fmt.Sprintf(", against the claim that %v", e.broken)
	}
	return text
}

// A Report is what a search found.
type Report struct {
	States int
	Steps  int
	Depth  int          // of the longest of all shortest ways to a state
	Count  map[Kind]int // how many steps were of a kind
	Broken bool         // a claim does not hold
	Trace  []string     // the shortest way there
}

func (r Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d states, %d steps, depth %d", r.States, r.Steps, r.Depth)
	for k := range numKinds {
		if r.Count[k] > 0 {
			fmt.Fprintf(&b, "\n  %9d × %s", r.Count[k], kindNames[k])
		}
	}
	for i, line := range r.Trace {
		fmt.Fprintf(&b, "\n  %2d. %s", i+1, line)
	}
	return b.String()
}

// batch is how many states a worker takes at a time, and window how many batches are under way until the states that they led
// to are entered: enough to keep workers busy, and few enough that duplicates among these need not much room.
const (
	batch  = 1024
	window = 64
)

// A find is a state that a step led to, and was not known when its batch began.
type find[C any] struct {
	code   C
	parent int32
}

// yield is what one batch led to.
type yield[C any] struct {
	finds  []find[C]
	counts [numKinds]int
	broken int32 // the first state with a step that breaks a claim, or -1
}

// search goes through every state that can be reached, breadth first, until a step breaks a claim. It takes one system per
// worker. What it finds, and in which order, does not depend on their number.
func search[S any, C comparable](systems []system[S, C]) Report {
	first := systems[0].start()
	codes := []C{systems[0].encode(&first)}
	parents := []int32{-1}
	seen := map[C]struct{}{codes[0]: {}}
	var counts [numKinds]int
	report := Report{Count: make(map[Kind]int)}
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
	for k, n := range counts {
		report.Count[Kind(k)] = n
	}
	return report
}

// expand takes every step from codes[from:to], in batches, in their order. Meanwhile nobody writes to seen.
func expand[S any, C comparable](systems []system[S, C], codes []C, seen map[C]struct{}, from, to int) []yield[C] {
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

func takeBatch[S any, C comparable](sys system[S, C], codes []C, seen map[C]struct{}, start int32) yield[C] {
	y := yield[C]{broken: -1}
	for i, code := range codes {
		parent := start + int32(i)
		s := sys.decode(code)
		sys.each(&s, func(next *S, e event) {
			y.counts[e.kind]++
			if e.broken != noClaim {
				if y.broken < 0 {
					y.broken = parent
				}
				return
			}
			to := sys.encode(next)
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

// replay walks a path again with one set of names from its beginning to its end, which the codes do not have, and on to a
// step that breaks a claim.
func replay[S any, C comparable](sys system[S, C], path []C) (trace []string) {
	s := sys.start()
	for _, code := range path {
		var next S
		var step event
		found := false
		sys.each(&s, func(to *S, e event) {
			if !found && e.broken == noClaim && sys.encode(to) == code {
				next, step, found = *to, e, true
			}
		})
		if !found {
			panic("fencemodel: a path that cannot be walked again")
		}
		s = next
		trace = append(trace, step.String())
	}
	last := ""
	sys.each(&s, func(_ *S, e event) {
		if last == "" && e.broken != noClaim {
			last = e.String()
		}
	})
	return append(trace, last)
}
