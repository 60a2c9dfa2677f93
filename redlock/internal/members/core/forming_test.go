package core

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/redlock/internal/members/record"
)

// formers is a state of two clients that form clusters of the masters of their lists. Each looks
// once; its messages come in any order, late or never; and at any time one of them sets masters
// back that were left behind. The value is never changed once it was reached.
type formers struct {
	now     int64 // of all masters
	masters []Report
	clients [2]former
	active  [2]bool // a master was told this cluster at some time
}

type former struct {
	phase   string // "", first, rest, telling, over
	began   int64
	of      []Report // the masters, as they were seen
	asks    []Change // that have not reached their masters
	answers []Report
}

// ages are the times at which steps are made: in time for joining, only for being told, and too
// late for that, so that masters are set back.
var ages = []int64{1000, 20_000, 63_000}

// key tells states apart.
func (w *formers) key() string {
	key := make([]byte, 0, 1024)
	word := func(text string) { key = append(append(key, text...), '|') }
	number := func(n int64) { key = append(strconv.AppendInt(key, n, 10), '|') }
	number(w.now)
	for _, m := range w.masters {
		word(m.Text)
		word(m.Held)
	}
	for i, c := range w.clients {
		word(strconv.FormatBool(w.active[i]))
		word(c.phase)
		number(c.began)
		for _, a := range c.asks {
			number(int64(a.Of.Node))
			word(a.Marker.Text())
		}
		word("then")
		for _, r := range c.answers {
			number(int64(r.Node))
			word(r.Text)
		}
	}
	return string(key)
}

// forming is two lists, and what their clients would make of them.
type forming struct {
	know    [2]*Client
	rosters [2]*record.Roster
}

func newForming(lists [2]string) (*forming, formers) {
	const all = "abcd"
	f, w := &forming{}, formers{now: ages[0]}
	for i, list := range lists {
		f.know[i] = &Client{Lives: record.Lives{}}
		name := string("PQ"[i])
		f.rosters[i] = &record.Roster{Cluster: name, Version: record.Version{Number: 1, Name: "v"}, MaxTTL: time.Minute, Earlier: time.Minute}
		for at := range all {
			listed := strings.Contains(list, all[at:at+1])
			f.know[i].Nodes = append(f.know[i].Nodes, Node{Listed: listed, Up: true, Met: true, Endpoints: []string{endpointOf(at)}})
			if listed {
				f.rosters[i].Members = append(f.rosters[i].Members, record.Peer{ID: all[at : at+1], Endpoint: endpointOf(at)})
			}
		}
	}
	for at := range all {
		m := record.Marker{State: record.MarkerActive, Incarnation: all[at : at+1], RunID: all[at : at+1], ReplID: "r", MaxTTL: 60_000}
		w.masters = append(w.masters, ReadReport(at, m.Text(), "", w.now))
	}
	return f, w
}

// seen returns what the masters of a client's list say.
func (f *forming) seen(w *formers, i int) (reports []Report) {
	for _, r := range w.masters {
		if f.know[i].Nodes[r.Node].Listed {
			r.Now = w.now
			reports = append(reports, r)
		}
	}
	return reports
}

// reach returns the state after a change has reached its master, and what that says.
func (w formers) reach(c Change) (formers, Report) {
	w.masters = slices.Clone(w.masters)
	m, e := &w.masters[c.Of.Node], c.Entry()
	if m.Text == c.Of.Text && m.Held == c.Of.Held && w.now >= e.Due && (e.Latest == 0 || w.now <= e.Latest) {
		held := m.Held
		if e.Register != "" {
			held = strconv.FormatInt(w.now, 10) + "\n" + e.Register // told anew, always
		}
		*m = ReadReport(m.Node, e.Marker, held, w.now)
		if t := m.Told(); t != nil {
			w.active[strings.Index("PQ", t.Cluster)] = true
		}
	}
	return w, *m
}

// each visits the states that follow.
func (f *forming) each(w formers, visit func(formers)) {
	for i := range w.clients {
		c := w.clients[i]
		for at, ask := range c.asks {
			next, answer := w.reach(ask)
			n := &next.clients[i]
			n.asks = slices.Delete(slices.Clone(c.asks), at, at+1)
			if c.phase == "first" || c.phase == "rest" {
				n.answers = append(slices.Clone(c.answers), answer)
				slices.SortFunc(n.answers, func(a, b Report) int { return a.Node - b.Node })
			}
			visit(next)
		}
		if next := w; f.goOn(&next, i) {
			visit(next)
		}
		for _, back := range f.know[i].SetBack(f.seen(&w, i)) {
			next, _ := w.reach(back)
			visit(next)
		}
	}
	if at := slices.Index(ages, w.now); at+1 < len(ages) {
		w.now = ages[at+1]
		visit(w)
	}
}

// goOn is what a client does next by itself. It gives up when it has not all answers, or too late.
func (f *forming) goOn(w *formers, i int) bool {
	c, roster := &w.clients[i], f.rosters[i]
	joined := Joined(slices.Clone(c.answers), roster)
	switch c.phase {
	case "":
		formation := f.know[i].Formable(f.seen(w, i), nil)
		if !formation.May {
			return false
		}
		c.phase, c.began, c.of = "first", w.now, formation.Of
		c.asks = f.know[i].AskToJoin(c.of[:1], roster)
	case "first":
		if len(joined) == 1 {
			c.phase, c.asks = "rest", f.know[i].AskToJoin(c.of[1:], roster)
		} else {
			c.phase, c.began, c.answers = "over", 0, nil // and its message may come yet
		}
	case "rest":
		asks, _ := TellFirst(joined, w.now == c.began, roster)
		c.phase, c.began, c.answers = "telling", 0, nil
		c.asks = append(slices.Clone(c.asks), asks...)
	default:
		return false
	}
	return true
}

// Two clients whose lists share a master form clusters at once. Whatever happens to their messages,
// one cluster at most is ever told to a master, and so counts. (S40, docs/safety.md) This goes
// through all orders.
func TestNewClustersShareNoMaster(t *testing.T) {
	for _, lists := range [][2]string{{"ab", "bc"}, {"abc", "bc"}, {"a", "abc"}, {"abc", "cd"}, {"abc", "abc"}} {
		f, start := newForming(lists)
		states, next := map[string]bool{start.key(): true}, []formers{start}
		counts := [2]bool{}
		for len(next) > 0 {
			w := next[len(next)-1]
			next = next[:len(next)-1]
			require.False(t, w.active[0] && w.active[1], "%v: both count: %s", lists, w.key())
			counts[0], counts[1] = counts[0] || w.active[0], counts[1] || w.active[1]
			f.each(w, func(then formers) {
				if key := then.key(); !states[key] {
					states[key] = true
					next = append(next, then)
				}
			})
		}
		assert.Equal(t, [2]bool{true, true}, counts, "%v: each counts in some order", lists)
		t.Logf("%v: %d states", lists, len(states))
	}
}
