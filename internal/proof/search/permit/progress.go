package permit

import (
	"fmt"
	"slices"
	"strings"
)

// Progress is what a search of a [Calm] world found.
type Progress struct {
	States, Steps int
	Count         map[Kind]int

	Broken bool // a slot has two holders, or a client was overtaken by one that came later
	Stuck  bool // a permit is free and somebody waits, and whatever happens nobody gets one
	Cycle  bool // clients may go on for ever without any of them getting a permit

	Trace []string // the way to what was found
}

func (p Progress) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d states, %d steps, broken %v, stuck %v, cycle %v", p.States, p.Steps, p.Broken, p.Stuck, p.Cycle)
	for i, line := range p.Trace {
		fmt.Fprintf(&b, "\n  %2d. %s", i+1, line)
	}
	return b.String()
}

// A graph is all states of a Calm world. Steps that callers decide on are left out of it: to go on
// must not need them.
type graph struct {
	calm
	codes   []code
	parents []int32
	next    [][]edge // without those to a state in which one more holds
	served  []bool   // a step leads to a state in which one more holds
	enabled []tasks  // by the steps from a state
}

// An edge is a step.
type edge struct {
	to   int32
	task uint8
}

// tasks are a set of what is on its way: the requests and messages of a client at a node, the
// releases of a slot at a node, and waiters that leave its list. Each arrives in the end.
type tasks uint32

func (t tasks) has(task uint8) bool { return t>>task&1 == 1 }

// together are all tasks; alone those of one client, and of no other.
const together = ^tasks(0)

func alone(c int) tasks {
	others := tasks(1)<<(maxClients*nodes) - 1
	return together&^others | (1<<nodes-1)<<(c*nodes)
}

func taskOf(e event) uint8 {
	switch {
	case e.client != nowhere:
		return uint8(e.client)*nodes + uint8(e.node)
	case e.slot != 0:
		return maxClients*nodes + uint8(e.node)*permits + uint8(e.slot) - 1
	default:
		return maxClients*nodes + nodes*permits + uint8(e.node)
	}
}

// Explore searches a Calm world for clients that are kept waiting.
func (config Calm) Explore(rules CalmRules) Progress {
	if config.Permits > permits || config.Clients > maxClients || config.Calls > 7 || config.Crashes > 3 ||
		config.Prompt && !config.PilotFirst {
		panic("permit: no such world")
	}
	g := &graph{calm: calm{config, rules}}
	report := Progress{Count: make(map[Kind]int)}
	g.walk(&report)
	if report.Broken {
		return report
	}
	if config.Crashes == 0 {
		if i := g.stuck(); i >= 0 {
			report.Stuck, report.Trace = true, g.trace(g.way(i))
			return report
		}
		g.report(&report, g.circle(together))
	}
	for c := range config.Clients {
		g.report(&report, g.circle(alone(c)))
	}
	return report
}

// report reports a circle.
func (g *graph) report(report *Progress, path []int32) {
	if path == nil || report.Cycle {
		return
	}
	way := g.way(path[0])
	lines := g.trace(append(way, path[1:]...))
	report.Cycle, report.Trace = true, slices.Insert(lines, len(way)-1, "and from there in a circle:")
}

// walk visits all states, breadth first.
func (g *graph) walk(report *Progress) {
	start := world{losses: uint8(g.Crashes), calls: uint8(g.Calls)}
	first := pack(&start, g.Clients, true)
	seen := map[code]int32{first: 0}
	g.codes, g.parents = []code{first}, []int32{-1}
	for i := 0; i < len(g.codes) && !report.Broken; i++ {
		g.next, g.served, g.enabled = append(g.next, nil), append(g.served, false), append(g.enabled, 0)
		w := unpack(g.codes[i], g.Clients, true)
		g.each(&w, func(next *world, m move) {
			report.Steps++
			report.Count[m.kind]++
			if m.broken && !report.Broken {
				report.Broken = true
				report.Trace = append(g.trace(g.way(int32(i))), m.String())
			}
			to := pack(next, g.Clients, true)
			at, known := seen[to]
			if !known {
				at = int32(len(g.codes))
				seen[to] = at
				g.codes, g.parents = append(g.codes, to), append(g.parents, int32(i))
			}
			if m.calls {
				return
			}
			g.enabled[i] |= 1 << taskOf(m.event)
			if m.kind == Holds {
				g.served[i] = true
			} else {
				g.next[i] = append(g.next[i], edge{at, taskOf(m.event)})
			}
		})
	}
	report.States = len(g.codes)
}

// stuck returns the first state in which a permit is free and a client wants it, and from which no
// steps lead to one more holder; or -1.
func (g *graph) stuck() int32 {
	before := make([][]int32, len(g.codes))
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
	for i := range g.codes {
		if good[i] {
			continue
		}
		if w := unpack(g.codes[i], g.Clients, true); g.wanted(&w) {
			return int32(i)
		}
	}
	return -1
}

// wanted reports whether a permit is free and a client that waits for one wants it.
func (x *calm) wanted(w *world) bool {
	holders, wants := 0, false
	for c := range x.Clients {
		switch w.clients[c].phase {
		case idle:
		case holding:
			holders++
		case trying, waiting, queued, woken, collecting:
			wants = wants || c < x.Clients-x.Spinners
		}
	}
	return wants && holders < x.Permits
}

// way returns the states that lead to a state.
func (g *graph) way(i int32) (path []int32) {
	for ; i >= 0; i = g.parents[i] {
		path = append(path, i)
	}
	slices.Reverse(path)
	return path
}

// trace returns the steps between states, in words.
func (g *graph) trace(path []int32) (lines []string) {
	for i := 1; i < len(path); i++ {
		w := unpack(g.codes[path[i-1]], g.Clients, true)
		line := ""
		g.each(&w, func(next *world, m move) {
			if line == "" && pack(next, g.Clients, true) == g.codes[path[i]] {
				line = m.String()
			}
		})
		lines = append(lines, line)
	}
	return lines
}
