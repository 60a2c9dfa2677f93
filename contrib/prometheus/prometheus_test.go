package prometheus_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/admin"
	redprometheus "github.com/redquorum/redquorum/contrib/prometheus"
	"github.com/redquorum/redquorum/internal/proof/docs"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
	"github.com/redquorum/redquorum/redlock/redlocktest"
)

func TestMain(m *testing.M) { cluster.Main(m) }

func newRegistry(t *testing.T, collectors ...prometheus.Collector) *prometheus.Registry {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	for _, c := range collectors {
		require.NoError(t, registry.Register(c))
	}
	return registry
}

// values returns every metric, named with its labels but the version, as name{label,label}.
func values(t *testing.T, registry prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	all := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			name := family.GetName()
			var labels []string
			for _, label := range m.GetLabel() {
				if label.GetName() != "version" {
					labels = append(labels, label.GetValue())
				}
			}
			if labels != nil {
				name += "{" + strings.Join(labels, ",") + "}"
			}
			all[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return all
}

func TestMetricsPassTheLinter(t *testing.T) {
	c := cluster.Start(t, 3)
	problems, err := testutil.GatherAndLint(newRegistry(t, redprometheus.NewCollector(cluster.NewConnected(t, c.URLs()))))
	require.NoError(t, err)
	assert.Empty(t, problems)
}

func TestMetricsCountWhatHappensToLocks(t *testing.T) {
	c := cluster.Start(t, 3)
	locker := cluster.NewConnected(t, c.URLs())
	registry := newRegistry(t, redprometheus.NewCollector(locker))

	lock, err := locker.TryLock(t.Context(), "a")
	require.NoError(t, err)
	_, err = locker.TryLock(t.Context(), "a")
	require.ErrorIs(t, err, redlock.ErrTaken)
	got := values(t, registry)
	assert.Equal(t, 1.0, got["redquorum_locks_held"])
	assert.Equal(t, 1.0, got["redquorum_locks_acquired_total"])
	assert.Equal(t, 1.0, got["redquorum_rounds_taken_total"])
	assert.Equal(t, 2.0, got["redquorum_quorum_nodes"])

	require.NoError(t, lock.Unlock(t.Context()))
	assert.Equal(t, 0.0, values(t, registry)["redquorum_locks_held"])
}

func TestMetricsShowANodeThatIsAwayAndComesBackEmpty(t *testing.T) {
	c := redlocktest.Start(t, 3)
	locker := c.Locker(t)
	registry := newRegistry(t, redprometheus.NewCollector(locker))
	endpoint := locker.Stats().Nodes[0].Endpoint
	node := func(name string) float64 {
		t.Helper()
		got := values(t, registry)
		key := "redquorum_node_" + name + "{" + endpoint + "}"
		require.Contains(t, got, key)
		return got[key]
	}
	assert.Equal(t, 1.0, node("up"))
	assert.Equal(t, 1.0, node("votes"))
	assert.Contains(t, values(t, registry), "redquorum_node_info{"+endpoint+",redis}")

	c.Node(0).Stop()
	assert.Equal(t, 0.0, node("up"))
	assert.Equal(t, 0.0, node("votes"))
	told := func(words ...string) func() bool {
		return func() bool {
			got := values(t, registry)
			return slices.ContainsFunc(words, func(word string) bool { return got["redquorum_node_trouble{"+endpoint+","+word+"}"] == 1 })
		}
	}
	assert.Eventually(t, told("refused", "ended", "unreachable"), 30*time.Second, time.Millisecond, "once it was dialed again")

	c.Node(0).Restart()
	assert.Equal(t, 1.0, node("up"))
	assert.Equal(t, 0.0, node("votes"))
	assert.Eventually(t, told("quarantined"), 30*time.Second, time.Millisecond)
	left := node("quarantine_remaining_seconds")
	assert.Greater(t, left, 0.0)
	assert.LessOrEqual(t, left, 60.0)
	assert.GreaterOrEqual(t, node("connects_total"), 2.0)
}

// Its missing vote would be an alert for as long as the program lives.
func TestAMasterThatWasRemovedAndIsNotListedIsNotExported(t *testing.T) {
	c := cluster.Start(t, 3)
	brief := []redlock.Option{redlock.WithTTL(100 * time.Millisecond), redlock.WithMaxTTL(100 * time.Millisecond)}
	operator := admin.Of(cluster.NewConnected(t, c.URLs(), brief...)).Cluster()
	registry := newRegistry(t, redprometheus.NewCollector(cluster.NewConnected(t, c.URLs()[:2], brief...)))
	removed := c.URLs()[2]
	await := func(members float64, exported bool) {
		t.Helper()
		cluster.Eventually(t, time.Minute, func() string {
			got := values(t, registry)
			_, there := got["redquorum_node_votes{"+removed+"}"]
			if there == exported && got["redquorum_cluster_members"] == members {
				return ""
			}
			return fmt.Sprint(got)
		})
	}
	await(3, true) // its program found it
	changing, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	m, err := operator.Members(changing)
	require.NoError(t, err)
	for _, member := range m.Members {
		if member.Endpoint == removed {
			require.NoError(t, operator.Remove(changing, member.ID))
		}
	}
	await(2, false)
}

func TestTwoLockersShareARegistryByALabel(t *testing.T) {
	c := cluster.Start(t, 1)
	registry := prometheus.NewPedanticRegistry()
	for _, name := range []string{"orders", "mail"} {
		labeled := prometheus.WrapRegistererWith(prometheus.Labels{"locker": name}, registry)
		require.NoError(t, labeled.Register(redprometheus.NewCollector(cluster.NewConnected(t, c.URLs()))))
	}
	assert.Contains(t, values(t, registry), "redquorum_locks_held{mail}")
}

func TestEndpointLabelsHaveNoPassword(t *testing.T) {
	locker := cluster.NewLocker(t, []string{"redis://user:secret@127.0.0.1:1"})
	for name := range values(t, newRegistry(t, redprometheus.NewCollector(locker))) {
		assert.NotContains(t, name, "secret")
	}
}

func TestACollectorWithoutALockerIsAnErrorOfItsGathering(t *testing.T) {
	_, err := newRegistry(t, redprometheus.NewCollector(nil)).Gather()
	assert.ErrorContains(t, err, "no locker")
}

// A new figure of Stats is exported, or named here.
func TestEveryFigureOfTheStatsIsExported(t *testing.T) {
	texts := []string{"Nodes", "Endpoint", "Err", "RunID", "Product", "Version", "Cluster", "Listed", "Unidentified", "Barred", "Memory", "Stats"}
	figures := 0
	for _, stats := range []reflect.Type{reflect.TypeFor[redlock.Stats](), reflect.TypeFor[redlock.NodeStats](), reflect.TypeFor[pool.Stats]()} {
		for field := range stats.Fields() {
			if !slices.Contains(texts, field.Name) {
				figures++
			}
		}
	}
	c := cluster.Start(t, 1)
	got := values(t, newRegistry(t, redprometheus.NewCollector(cluster.NewConnected(t, c.URLs()))))
	assert.Len(t, got, figures+3, "node_votes, node_info and cluster_version are not of the texts above")
}

func TestTheCodeOfTheReadmeCompiles(t *testing.T) {
	docs.RequireReadme(t, 4, `
		var (
			locker, orders *redlock.Locker
			registry       prometheus.Registerer
			endpoints      []string
		)`,
		"strings", "time", "github.com/prometheus/client_golang/prometheus", "redprometheus=github.com/redquorum/redquorum/contrib/prometheus")
}
