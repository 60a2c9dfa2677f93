package core

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redquorum/redquorum/redlock/internal/members/record"
)

// What a master of a list may be: of a larger cluster, of a cluster of two, a cluster of its own,
// or of none.
const kinds = "cpo-"

// world is a list of masters, by what each is.
type world struct {
	kinds   string
	reports []Report       // what each says
	most    *record.Roster // the larger cluster; nil if the list has none of it
}

// newWorld makes masters whose clusters have so many members; others of them are in no list.
func newWorld(is string, sizes map[rune]int) *world {
	w := &world{kinds: is, reports: make([]Report, len(is))}
	rosters := map[string]*record.Roster{}
	for i, kind := range is {
		name := string(kind)
		if kind == 'o' {
			name += fmt.Sprint(i)
		}
		if rosters[name] != nil || kind == '-' {
			continue
		}
		var endpoints []string
		for k, other := range is {
			if k == i || other == kind && kind != 'o' {
				endpoints = append(endpoints, endpointOf(k))
			}
		}
		for len(endpoints) < sizes[kind] {
			endpoints = append(endpoints, fmt.Sprintf("redis://%s-elsewhere%d:6379", name, len(endpoints)))
		}
		rosters[name] = record.NewCluster(time.Minute, endpoints)
	}
	w.most = rosters["c"]
	for i, kind := range is {
		m, held := record.Marker{State: record.MarkerActive, Incarnation: fmt.Sprint(i), RunID: record.Unknown, ReplID: record.Unknown, MaxTTL: 60_000}, ""
		for _, name := range []string{string(kind), string(kind) + fmt.Sprint(i)} {
			if r := rosters[name]; r != nil {
				told := record.Register{Told: r}
				m, held = m.At(record.Place{Cluster: r.Cluster, Member: r.At(endpointOf(i)), Version: r.Version}), "1\n"+told.Rest()
			}
		}
		w.reports[i] = ReadReport(i, m.Text(), held, 1)
	}
	return w
}

func endpointOf(i int) string { return fmt.Sprintf("redis://node%d:6379", i) }

// enters returns the cluster that a client enters which hears some of the masters; empty for none.
func (w *world) enters(heard int) string {
	c := &Client{}
	var reports []Report
	for i, r := range w.reports {
		c.Nodes = append(c.Nodes, Node{Listed: true, Endpoints: []string{endpointOf(i)}})
		if heard&(1<<i) != 0 {
			reports = append(reports, r)
		}
	}
	b := c.Learn(Belief{}, reports)
	if b.Roster == nil || b.Conflict != nil {
		return ""
	}
	return b.Roster.Cluster
}

// Clients with one list hear different masters of it. Whatever these are, no two of them enter two
// clusters; and a client that hears all of them enters the larger one, if a majority of that is
// there, and only single masters are beside it.
func TestClientsWithOneListEnterOneCluster(t *testing.T) {
	const most = 5
	entered := 0
	each := func(is string) {
		for _, size := range []int{2, 3, 5} {
			w := newWorld(is, map[rune]int{'c': size, 'p': 2})
			seen := map[string]bool{}
			for heard := range 1 << len(is) {
				if in := w.enters(heard); in != "" {
					seen[in] = true
					entered++
				}
			}
			assert.LessOrEqual(t, len(seen), 1, "%s, %d members", is, size)
			if all := w.enters(1<<len(is) - 1); w.counts() {
				assert.Equal(t, w.most.Cluster, all, "%s, %d members", is, size)
			}
		}
	}
	var grow func(is string)
	grow = func(is string) {
		if is != "" {
			each(is)
		}
		for _, kind := range kinds {
			if len(is) < most {
				grow(is + string(kind))
			}
		}
	}
	grow("")
	assert.Greater(t, entered, 1000)
}

// counts reports whether the larger cluster has a majority in the list, beside single masters and
// those of no cluster.
func (w *world) counts() bool {
	if w.most == nil {
		return false
	}
	own := 0
	for _, kind := range w.kinds {
		switch kind {
		case 'c':
			own++
		case 'p':
			return false
		}
	}
	return own >= w.most.Need()
}

// A cluster of three was shrunk to two members, and to one. Each master remembers some version of
// it, forgot, or has become another cluster since. Whatever clients hear of them, no two clients
// with the same list enter two clusters.
func TestClientsWithTheListOfAClusterThatShrankEnterOneCluster(t *testing.T) {
	roster := func(cluster string, number int64, members ...int) *record.Roster {
		r := &record.Roster{Cluster: cluster, Version: record.Version{Number: number, Name: "v"}, MaxTTL: time.Minute, Earlier: time.Minute}
		for _, i := range members {
			r.Members = append(r.Members, record.Peer{ID: string(rune('a' + i)), Endpoint: endpointOf(i)})
		}
		return r
	}
	first, second, third := roster("C", 1, 0, 1, 2), roster("C", 2, 0, 2), roster("C", 3, 0)
	pair := roster("P", 1, 0, 2)
	may := [3][]*record.Roster{ // nil for a master that forgot
		{first, second, third, pair, roster("A", 1, 0), nil},
		{first, second, roster("B", 1, 1), nil},
		{first, second, third, pair, roster("D", 1, 2), nil},
	}
	for _, a := range may[0] {
		for _, b := range may[1] {
			for _, c := range may[2] {
				if (a == third || c == third) && (a == first || c == first) {
					continue // all members know a version before the next one is chosen
				}
				w := &world{}
				for i, told := range []*record.Roster{a, b, c} {
					m, held := record.Marker{State: record.MarkerActive, Incarnation: string(rune('a' + i)), RunID: record.Unknown, ReplID: record.Unknown, MaxTTL: 60_000}, ""
					if told == nil {
						m.State, m.Until = record.MarkerLost, 1
						m = m.At(record.Place{Cluster: "C", Member: string(rune('a' + i))})
					} else {
						register := record.Register{Told: told}
						m, held = m.At(record.Place{Cluster: told.Cluster, Member: string(rune('a' + i)), Version: told.Version}), "1\n"+register.Rest()
					}
					w.reports = append(w.reports, ReadReport(i, m.Text(), held, 1))
				}
				seen := map[string]bool{}
				for heard := range 1 << len(w.reports) {
					if in := w.enters(heard); in != "" {
						seen[in] = true
					}
				}
				assert.LessOrEqual(t, len(seen), 1, "a: %v\nb: %v\nc: %v", a, b, c)
			}
		}
	}
}
