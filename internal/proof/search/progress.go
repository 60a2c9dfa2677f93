package search

import (
	"fmt"
	"slices"
)

// A Fair model is one in which clients may be kept waiting. Whatever is on its way arrives in the
// end.
type Fair[S comparable] interface {
	Model[S]
	// Task says what arrives with a step: a number below 32. It is -1 if somebody decides on the
	// step: then to go on must not need it.
	Task(e Event) int
	// Serves reports whether a client gets what it waits for by the step.
	Serves(e Event) bool
	// Wanted reports whether a client waits for what is free.
	Wanted(s *S) bool
}

// What [Progress] may find.
const (
	Stuck  = "what is free is given to those who wait for it: nothing that may still happen does"
	Circle = "somebody is served in the end: from here, it may go on for ever in a circle"
)

// A graph is all states of a model that is fair, and the steps between them that nobody decides on.
type graph[S comparable] struct {
	model   Fair[S]
	names   *namer[S]
	states  []S
	parents []int32
	next    [][]edge // without those that serve
	served  []bool   // a step serves
	enabled []tasks  // by the steps from a state
	report  Report
}

// An edge is a step.
type edge struct {
	to     int32
	task   int8
	client int8
}

type tasks uint32

// everybody's steps may take part in a circle, or those of one client, and of nobody.
const everybody = -1

func (e edge) of(client int) bool {
	return client == everybody || e.client == Nobody || int(e.client) == client
}

// Progress visits all states of a model, each under its own name. It looks for a claim that breaks;
// if together is set, for a state in which somebody waits for what is free, and from which no steps
// lead to anybody who is served; for a circle in which all clients may go on for ever, if together
// is set, and for one in which a client may alone, while nobody is served.
func Progress[S comparable](model Fair[S], clients int, together bool) Report {
	g := &graph[S]{model: model, names: newNamer[S](model), report: Report{Count: make(map[Kind]int)}}
	g.walk()
	if g.report.Broken == "" && together {
		g.stuck()
		g.circle(everybody)
	}
	for c := range clients {
		g.circle(c)
	}
	tally(g.report)
	return g.report
}

func (g *graph[S]) walk() {
	seen := make(map[fingerprint]int32)
	at := func(s *S, parent int32) int32 {
		print := g.names.print(s)
		i, known := seen[print]
		if !known {
			i = int32(len(g.states))
			seen[print] = i
			g.states, g.parents = append(g.states, *s), append(g.parents, parent)
		} else if g.states[i] != *s {
			panic("search: two states have one fingerprint")
		}
		return i
	}
	start := g.model.Start()
	at(&start, -1)
	for i := int32(0); int(i) < len(g.states) && g.report.Broken == ""; i++ {
		g.next, g.served, g.enabled = append(g.next, nil), append(g.served, false), append(g.enabled, 0)
		s := g.states[i]
		g.model.Each(&s, func(next *S, e Event) {
			g.report.Steps++
			g.report.Count[e.Kind]++
			if e.Broken != "" && g.report.Broken == "" {
				g.report.Broken, g.report.Trace = e.Broken, append(g.trace(g.way(i)), e.String())
			}
			to, task := at(next, i), g.model.Task(e)
			if task < 0 {
				return
			}
			g.enabled[i] |= 1 << task
			if g.model.Serves(e) {
				g.served[i] = true
			} else {
				g.next[i] = append(g.next[i], edge{to, int8(task), int8(e.Client)})
			}
		})
	}
	g.report.States = len(g.states)
}

// stuck looks for the first state in which somebody waits for what is free, and from which no steps
// lead to one that serves.
func (g *graph[S]) stuck() {
	before := make([][]int32, len(g.states))
	var found []int32
	good := slices.Clone(g.served)
	for i, edges := range g.next {
		for _, e := range edges {
			before[e.to] = append(before[e.to], int32(i))
		}
		if good[i] {
			found = append(found, int32(i))
		}
	}
	for ; len(found) > 0; found = found[1:] {
		for _, b := range before[found[0]] {
			if !good[b] {
				good[b] = true
				found = append(found, b)
			}
		}
	}
	for i := range g.states {
		if !good[i] && g.model.Wanted(&g.states[i]) {
			g.report.Broken, g.report.Trace = Stuck, append(g.trace(g.way(int32(i))), Stuck)
			return
		}
	}
}

// circle looks for states that lead to each other in a circle in which clients may go on for ever.
// Whatever is on its way arrives in the end. So they cannot if something is on its way in all
// states that lead to each other, and never arrives between them.
func (g *graph[S]) circle(client int) {
	if g.report.Broken != "" {
		return
	}
	component := g.components(client)
	members := make(map[int32][]int32)
	for i, c := range component {
		members[c] = append(members[c], int32(i))
	}
	first := int32(-1)
	for c, states := range members {
		waits, arrives := ^tasks(0), tasks(0)
		for _, i := range states {
			waits &= g.enabled[i]
			for _, e := range g.next[i] {
				if component[e.to] == c && e.of(client) {
					arrives |= 1 << e.task
				}
			}
		}
		if arrives != 0 && waits&^arrives == 0 && (first < 0 || states[0] < first) {
			first = states[0]
		}
	}
	if first < 0 {
		return
	}
	way := g.way(first)
	lines := g.trace(append(way, g.back(first, component, client)...))
	last := fmt.Sprintf("the last %d steps, again and again, against the claim that %s", len(lines)-len(way)+1, Circle)
	g.report.Broken, g.report.Trace = Circle, append(lines, last)
}

// back returns the shortest way from a state back to it, in its component.
func (g *graph[S]) back(from int32, component []int32, client int) []int32 {
	parents := make(map[int32]int32)
	for queue := []int32{from}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		for _, e := range g.next[at] {
			if _, known := parents[e.to]; known || component[e.to] != component[from] || !e.of(client) {
				continue
			}
			parents[e.to] = at
			queue = append(queue, e.to)
			if e.to != from {
				continue
			}
			path := []int32{from}
			for i := at; i != from; i = parents[i] {
				path = append([]int32{i}, path...)
			}
			return path
		}
	}
	panic("search: no way back")
}

// components numbers the strongly connected components, with the algorithm of Tarjan (1972).
func (g *graph[S]) components(client int) []int32 {
	var (
		number    = make([]int32, len(g.states)) // 0: not visited
		low       = make([]int32, len(g.states))
		component = make([]int32, len(g.states)) // 0: not known
		last      int32
		found     int32
		open      []int32
		visit     func(at int32)
	)
	visit = func(at int32) {
		last++
		number[at], low[at] = last, last
		open = append(open, at)
		for _, e := range g.next[at] {
			switch {
			case !e.of(client):
			case number[e.to] == 0:
				visit(e.to)
				low[at] = min(low[at], low[e.to])
			case component[e.to] == 0:
				low[at] = min(low[at], number[e.to])
			}
		}
		if low[at] != number[at] {
			return
		}
		found++
		for done := false; !done; {
			one := open[len(open)-1]
			open = open[:len(open)-1]
			component[one] = found
			done = one == at
		}
	}
	for root := range g.states {
		if number[root] == 0 {
			visit(int32(root))
		}
	}
	return component
}

// way returns the states that lead to a state.
func (g *graph[S]) way(i int32) (path []int32) {
	for ; i >= 0; i = g.parents[i] {
		path = append(path, i)
	}
	slices.Reverse(path)
	return path
}

// trace returns the steps between states, in words.
func (g *graph[S]) trace(path []int32) (lines []string) {
	for i := 1; i < len(path); i++ {
		from, line := g.states[path[i-1]], ""
		g.model.Each(&from, func(next *S, e Event) {
			if line == "" && *next == g.states[path[i]] {
				line = e.String()
			}
		})
		lines = append(lines, line)
	}
	return lines
}
