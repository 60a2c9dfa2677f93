package prometheus_test

import (
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

	redprometheus "github.com/redquorum/redquorum/contrib/prometheus"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
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
	c := cluster.StartEmbedded(t, 3)
	problems, err := testutil.GatherAndLint(newRegistry(t, redprometheus.NewCollector(cluster.NewConnected(t, c.URLs()))))
	require.NoError(t, err)
	assert.Empty(t, problems)
}

func TestMetricsCountWhatHappensToLocks(t *testing.T) {
	c := cluster.StartEmbedded(t, 3)
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

func TestMetricsShowANodeThatIsKilledAndComesBackEmpty(t *testing.T) {
	c := cluster.Start(t, 3)
	locker := cluster.NewConnected(t, c.URLs())
	registry := newRegistry(t, redprometheus.NewCollector(locker))
	node := func(name string) float64 {
		got := values(t, registry)
		key := "redquorum_node_" + name + "{" + c.URLs()[0] + "}"
		require.Contains(t, got, key)
		return got[key]
	}
	await := func(name string, want float64) {
		t.Helper()
		cluster.Eventually(t, 20*time.Second, func() string {
			if got := node(name); got != want {
				return fmt.Sprintf("%s is %v, there was %v", name, want, got)
			}
			return ""
		})
	}
	assert.Equal(t, 1.0, node("up"))
	assert.Equal(t, 1.0, node("votes"))
	assert.Contains(t, values(t, registry), "redquorum_node_info{"+c.URLs()[0]+",redis}")

	require.NoError(t, c.Masters[0].Kill())
	await("up", 0)
	assert.Equal(t, 0.0, node("votes"))

	require.NoError(t, c.Masters[0].Restart())
	await("up", 1)
	cluster.Eventually(t, 20*time.Second, func() string {
		if got := node("quarantine_remaining_seconds"); got <= 0 || got > 60 {
			return fmt.Sprintf("up to a minute of quarantine, there is %v", got)
		}
		return ""
	})
	assert.Equal(t, 0.0, node("votes"))
	assert.GreaterOrEqual(t, node("connects_total"), 2.0)
}

func TestTwoLockersShareARegistryByALabel(t *testing.T) {
	c := cluster.StartEmbedded(t, 1)
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

// Otherwise two metrics would have the same labels.
func TestTheSameEndpointTwiceIsNoLocker(t *testing.T) {
	_, err := redlock.New([]string{"redis://127.0.0.1:1", "redis://127.0.0.1:1"})
	assert.ErrorIs(t, err, redlock.ErrInvalid)
}

func TestACollectorWithoutALockerIsAnErrorOfItsGathering(t *testing.T) {
	_, err := newRegistry(t, redprometheus.NewCollector(nil)).Gather()
	assert.ErrorContains(t, err, "no locker")
}

// A new figure of Stats is exported, or named here.
func TestEveryFigureOfTheStatsIsExported(t *testing.T) {
	texts := []string{"Nodes", "Endpoint", "Err", "RunID", "Product", "Version", "Unidentified", "Barred", "Memory", "Stats"}
	figures := 0
	for _, stats := range []reflect.Type{reflect.TypeFor[redlock.Stats](), reflect.TypeFor[redlock.NodeStats](), reflect.TypeFor[pool.Stats]()} {
		for field := range stats.Fields() {
			if !slices.Contains(texts, field.Name) {
				figures++
			}
		}
	}
	c := cluster.StartEmbedded(t, 1)
	got := values(t, newRegistry(t, redprometheus.NewCollector(cluster.NewConnected(t, c.URLs()))))
	assert.Len(t, got, figures+3, "quorum_nodes, node_votes and node_info are not of the stats")
}
