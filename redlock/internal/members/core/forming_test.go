package core

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/proof/search"
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

// former is a client, and how far its task of forming a cluster is. What that keeps between two
// steps follows from when it began, and from the answers so far.
type former struct {
	steps   int      // begun so far
	began   int64    // 0 once the last step has begun, and then there are no answers
	then    Task     // the next step; nil if there is none
	asks    []Change // that have not reached their masters
	before  []Report // answers to earlier steps
	answers []Report // to this one
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
		number(int64(c.steps))
		word(strconv.FormatBool(c.then != nil))
		number(c.began)
		for _, a := range c.asks {
			number(int64(a.Of.Node))
			word(a.Marker.Text())
		}
		word("then")
		for _, r := range append(slices.Clip(c.before), c.answers...) {
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
			if c.then != nil {
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

// goOn has a client begin the next step of its task by itself, whether or not it has all answers.
func (f *forming) goOn(w *formers, i int) bool {
	c, now := &w.clients[i], clock.Instant(0).Add(time.Duration(w.now)*time.Millisecond)
	switch {
	case c.steps == 0:
		formation := f.know[i].Formable(f.seen(w, i), nil)
		if !formation.May {
			return false
		}
		c.began, c.then = w.now, ToForm(formation.Of, f.rosters[i])
	case c.then == nil:
		return false
	}
	step := c.then(f.know[i], now, slices.Clone(c.answers))
	c.steps, c.then = c.steps+1, step.Then
	c.asks = append(slices.Clip(c.asks), step.Asks...) // those before may come yet
	c.before, c.answers = append(slices.Clip(c.before), c.answers...), nil
	if c.then == nil {
		c.began, c.before = 0, nil
	}
	return true
}

// Two clients whose lists share a master form clusters at once. Whatever happens to their messages,
// one cluster at most is ever told to a master, and so counts. (S40, docs/safety.md) This goes
// through all orders.
func TestNewClustersShareNoMaster(t *testing.T) {
	for _, row := range []struct {
		lists [2]string
		size  search.Size
	}{
		{[2]string{"ab", "bc"}, search.Always},
		{[2]string{"a", "abc"}, search.Always},
		{[2]string{"abc", "bc"}, search.Large},
		{[2]string{"abc", "cd"}, search.Large},
		{[2]string{"abc", "abc"}, search.Large},
	} {
		t.Run(strings.Join(row.lists[:], " "), func(t *testing.T) {
			row.size.Skip(t)
			f, start := newForming(row.lists)
			states, next := map[string]bool{start.key(): true}, []formers{start}
			counts := [2]bool{}
			for len(next) > 0 {
				w := next[len(next)-1]
				next = next[:len(next)-1]
				require.False(t, w.active[0] && w.active[1], "both count: %s", w.key())
				counts[0], counts[1] = counts[0] || w.active[0], counts[1] || w.active[1]
				f.each(w, func(then formers) {
					if key := then.key(); !states[key] {
						states[key] = true
						next = append(next, then)
					}
				})
			}
			assert.Equal(t, [2]bool{true, true}, counts, "each counts in some order")
			t.Logf("%d states", len(states))
		})
	}
}
