package search

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// toy is a mutex on three nodes. Clients ask all nodes, in any order, and hold the lock with two of
// them, or with one, by mistake. What they hold, they may release.
type toy struct {
	clients int
	enough  int  // nodes
	selfish bool // nobody gives up
}

const (
	takes    Kind = "is granted"
	holds    Kind = "holds the lock"
	releases Kind = "releases"
	givesUp  Kind = "gives up"
)

const alone = "one client holds the lock"

// world has padding, which must not matter.
type world struct {
	nodes   [3]struct{ owner uint8 } // 0, or c+1
	until   uint32
	clients [3]struct{ holds bool }
}

func (x *toy) Start() world { return world{until: 1} }

func (x *toy) Each(w *world, visit func(next *world, e Event)) {
	for c := range x.clients {
		votes := 0
		for n := range w.nodes {
			if int(w.nodes[n].owner) == c+1 {
				votes++
			}
			if w.nodes[n].owner == 0 && !w.clients[c].holds {
				next := *w
				next.nodes[n].owner = uint8(c) + 1
				visit(&next, Event{Kind: takes, Client: c, Node: n})
			}
		}
		if votes >= x.enough && !w.clients[c].holds {
			next, e := *w, Event{Kind: holds, Client: c, Node: Nowhere}
			for other := range x.clients {
				if w.clients[other].holds {
					e.Broken = alone
				}
			}
			next.clients[c].holds = true
			visit(&next, e)
		}
		if e := (Event{Kind: givesUp, Client: c, Node: Nowhere}); votes > 0 && (w.clients[c].holds || !x.selfish) {
			next := *w
			for n := range w.nodes {
				if int(w.nodes[n].owner) == c+1 {
					next.nodes[n].owner = 0
				}
			}
			if next.clients[c].holds {
				e.Kind = releases
			}
			next.clients[c].holds = false
			visit(&next, e)
		}
	}
}

func (x *toy) Task(e Event) int {
	if e.Kind == releases {
		return -1
	}
	return e.Client*4 + e.Node + 1
}

func (x *toy) Serves(e Event) bool { return e.Kind == holds }

func (x *toy) Wanted(w *world) bool {
	for c := range x.clients {
		if w.clients[c].holds {
			return false
		}
	}
	return true
}

// named is a toy whose names mean nothing; signed, one that says so faster.
type (
	named  struct{ toy }
	signed struct{ named }
	forget struct{ named } // with a mistake: it renames no owner
)

func (x *named) Alike() Alike { return Alike{Nodes: Same(3), Clients: Same(x.clients)} }

func (x *named) Rename(w *world, order *Order) (to world) {
	to.until = w.until
	var owners [4]uint8
	for i, c := range order.Clients {
		owners[c+1] = uint8(i) + 1
		to.clients[i] = w.clients[c]
	}
	for i, n := range order.Nodes {
		to.nodes[i].owner = owners[w.nodes[n].owner]
	}
	return to
}

func (x *forget) Rename(w *world, order *Order) world {
	to := x.named.Rename(w, order)
	for i, n := range order.Nodes {
		to.nodes[i] = w.nodes[n]
	}
	return to
}

func (x *signed) Sign(w *world, c, n int) uint64 {
	switch {
	case n == Nowhere:
		return Bits(w.clients[c].holds)
	case c == Nobody:
		return Bits(w.nodes[n].owner == 0)
	default:
		return Bits(int(w.nodes[n].owner) == c+1)
	}
}

func TestASearchVisitsEveryStateOnce(t *testing.T) {
	// Three nodes have an owner or none; one with two or three of them may hold the lock.
	right := toy{clients: 3, enough: 2}
	report := Run(func() Model[world] { return &right })
	assert.Empty(t, report.Broken)
	assert.Equal(t, 4*4*4+3*(3*3+1), report.States)
	assert.Equal(t, 4, report.Depth, "three nodes, and the lock")
	for _, model := range []Symmetric[world]{&named{right}, &signed{named{right}}} {
		report := Run(func() Model[world] { return model })
		assert.Equal(t, 7+3, report.States, "0, 1, 1+1, 1+1+1, 2, 2+1 or 3 nodes have owners")
		CheckNames(t, model, 500)
	}
}

func TestASearchFindsTheShortestWayToAMistake(t *testing.T) {
	report := Run(func() Model[world] { return &signed{named{toy{clients: 3, enough: 1}}} })
	assert.Equal(t, alone, report.Broken)
	require.Len(t, report.Trace, 4)
	assert.Equal(t, "holds the lock, against the claim that "+alone, strings.SplitN(report.Trace[3], ": ", 2)[1])
}

func TestAForgottenNameIsFound(t *testing.T) {
	assert.ErrorContains(t, compareNames[world](&forget{named{toy{clients: 3, enough: 2}}}, 500), "names")
}

func TestProgressFindsWhoIsKeptWaiting(t *testing.T) {
	assert.Empty(t, Progress(&toy{clients: 2, enough: 2, selfish: true}, 2, true).Broken)
	stuck := Progress(&toy{clients: 3, enough: 2, selfish: true}, 3, true)
	assert.Equal(t, Stuck, stuck.Broken, "each has one node")
	assert.Len(t, stuck.Trace, 4)
	circle := Progress(&toy{clients: 2, enough: 2}, 2, true)
	assert.Equal(t, Circle, circle.Broken, "they give up again and again")
	assert.Equal(t, alone, Progress(&toy{clients: 2, enough: 1}, 2, true).Broken)
}
