package members

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/redlock/internal/members/core"
	"github.com/redquorum/redquorum/redlock/internal/members/record"
)

// What a master of a list may be: of a larger cluster, of a cluster of two, a cluster of its own,
// or of none.
const kinds = "cpo-"

// world is a list of masters, by what each is.
type world struct {
	kinds   string
	reports []core.Report  // what each says
	most    *record.Roster // the larger cluster; nil if the list has none of it
}

// newWorld makes masters whose clusters have so many members; others of them are in no list.
func newWorld(is string, sizes map[rune]int) *world {
	w := &world{kinds: is, reports: make([]core.Report, len(is))}
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
		w.reports[i] = core.ReadReport(i, m.Text(), held, 1)
	}
	return w
}

func endpointOf(i int) string { return fmt.Sprintf("redis://node%d:6379", i) }

// enters returns the cluster that a client enters which hears some of the masters; empty for none.
func (w *world) enters(nodes []*pipeline.Node, heard int) string {
	ms := New(Config{MaxTTL: time.Minute, Clock: clock.System()}, nodes[:len(w.kinds)], &Observer{})
	var reports []core.Report
	for i, r := range w.reports {
		if heard&(1<<i) != 0 {
			reports = append(reports, r)
		}
	}
	ms.learnLocked(reports)
	if ms.keeper.roster == nil || ms.keeper.conflict != nil {
		return ""
	}
	return ms.keeper.roster.Cluster
}

// Clients with one list hear different masters of it. Whatever these are, no two of them enter two
// clusters; and a client that hears all of them enters the larger one, if a majority of that is
// there, and only single masters are beside it.
func TestClientsWithOneListEnterOneCluster(t *testing.T) {
	const most = 5
	var nodes []*pipeline.Node
	for i := range most {
		node, err := pipeline.NewNode(endpointOf(i), pipeline.WithDialer(func(context.Context, string, string) (net.Conn, error) {
			return nil, errors.New("nobody is there")
		}))
		require.NoError(t, err)
		defer node.Close()
		nodes = append(nodes, node)
	}
	entered := 0
	each := func(is string) {
		for _, size := range []int{2, 3, 5} {
			w := newWorld(is, map[rune]int{'c': size, 'p': 2})
			seen := map[string]bool{}
			for heard := range 1 << len(is) {
				if in := w.enters(nodes, heard); in != "" {
					seen[in] = true
					entered++
				}
			}
			assert.LessOrEqual(t, len(seen), 1, "%s, %d members", is, size)
			if all := w.enters(nodes, 1<<len(is)-1); w.counts() {
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
