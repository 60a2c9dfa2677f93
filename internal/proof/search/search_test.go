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
	nodes [3]struct {
		owner uint8 `search:"client"` // 0, or c+1
	} `search:"nodes"`
	until   uint32
	clients [3]struct{ holds bool } `search:"clients"`
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

// named is a toy whose names mean nothing.
type named struct{ toy }

func (x *named) Alike() Alike { return Alike{Nodes: Same(3), Clients: Same(x.clients)} }

// careless is a world that does not say that an owner is a client.
type careless struct {
	nodes   [3]struct{ owner uint8 } `search:"nodes"`
	until   uint32
	clients [3]struct{ holds bool } `search:"clients"`
}

type forgets struct{ named }

func (x *forgets) Start() careless { return careless(x.named.Start()) }

func (x *forgets) Each(w *careless, visit func(next *careless, e Event)) {
	x.named.Each((*world)(w), func(next *world, e Event) { visit((*careless)(next), e) })
}

func TestASearchVisitsEveryStateOnce(t *testing.T) {
	// Three nodes have an owner or none; one with two or three of them may hold the lock.
	right := toy{clients: 3, enough: 2}
	report := Run(func() Model[world] { return &right })
	assert.Empty(t, report.Broken)
	assert.Equal(t, 4*4*4+3*(3*3+1), report.States)
	assert.Equal(t, 4, report.Depth, "three nodes, and the lock")
	report = Run(func() Model[world] { return &named{right} })
	assert.Equal(t, 7+3, report.States, "0, 1, 1+1, 1+1+1, 2, 2+1 or 3 nodes have owners")
	CheckNames(t, &named{right}, 500)
}

func TestASearchFindsTheShortestWayToAMistake(t *testing.T) {
	report := Run(func() Model[world] { return &named{toy{clients: 3, enough: 1}} })
	assert.Equal(t, alone, report.Broken)
	require.Len(t, report.Trace, 4)
	assert.Equal(t, "holds the lock, against the claim that "+alone, strings.SplitN(report.Trace[3], ": ", 2)[1])
}

func TestAForgottenNameIsFound(t *testing.T) {
	assert.ErrorContains(t, compareNames(&forgets{named{toy{clients: 3, enough: 2}}}, 500), "names")
}

// everything has all that a type can say of names.
type everything struct {
	nodes [2]struct {
		of    [2]uint8 `search:"clients, bits of nodes"`
		boss  int16    `search:"client+3"`
		marks uint16   `search:"3 bits of others"`
		alias uint32   `search:"fresh"`
	} `search:"nodes"`
	others [3]int64 `search:"others, node"`
	first  uint8    `search:"fresh"`
}

func TestATypeSaysWhatIsRenamed(t *testing.T) {
	y := symmetryOf[everything](Alike{Nodes: Same(2), Clients: Same(2), Others: Same(3)})
	var s everything
	s.nodes[0].of, s.nodes[0].boss, s.nodes[0].alias = [2]uint8{0b1001, 0b10}, 3, 7
	s.nodes[1].boss, s.nodes[1].marks, s.nodes[1].alias = 5, 1<<12|4<<6|2<<3|1, 9
	s.others, s.first = [3]int64{1, 2, 3}, 7
	var want everything
	want.nodes[1].of, want.nodes[1].boss, want.nodes[1].alias = [2]uint8{0b01, 0b1010}, 4, 2
	want.nodes[0].boss, want.nodes[0].marks, want.nodes[0].alias = 5, 1<<12|2<<6|1<<3|4, 1
	want.others, want.first = [3]int64{3, 2, 1}, 2
	x := namer[everything]{layout: layoutOf[everything](), signer: signer{symmetry: y}, moving: make([]byte, 200)}
	x.reorder(&x.other, &s, &orders{{1, 0}, {1, 0}, {2, 0, 1}})
	assert.Equal(t, want, x.other)
	assert.Panics(t, func() { meaningOf("nobody") })
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
