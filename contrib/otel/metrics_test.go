package otel_test

import (
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	redotel "github.com/redquorum/redquorum/contrib/otel"
	"github.com/redquorum/redquorum/internal/proof/docs"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/redlock"
	"github.com/redquorum/redquorum/redlock/redlocktest"
)

func TestMain(m *testing.M) { cluster.Main(m) }

// collect returns every figure, named with the values of its attributes but the version, as
// name{value,value}.
func collect(t *testing.T, reader sdkmetric.Reader) map[string]float64 {
	t.Helper()
	all := map[string]float64{}
	for _, m := range metrics(t, reader) {
		switch data := m.Data.(type) {
		case metricdata.Sum[int64]:
			addPoints(all, m.Name, data.DataPoints)
		case metricdata.Gauge[int64]:
			addPoints(all, m.Name, data.DataPoints)
		case metricdata.Gauge[float64]:
			addPoints(all, m.Name, data.DataPoints)
		default:
			t.Fatalf("%s is a %T", m.Name, data)
		}
	}
	return all
}

func addPoints[N int64 | float64](all map[string]float64, name string, points []metricdata.DataPoint[N]) {
	for _, point := range points {
		var values []string
		for _, a := range point.Attributes.ToSlice() {
			if a.Key != "version" {
				values = append(values, a.Value.String())
			}
		}
		if values == nil {
			all[name] = float64(point.Value)
		} else {
			all[name+"{"+strings.Join(values, ",")+"}"] = float64(point.Value)
		}
	}
}

func metrics(t *testing.T, reader sdkmetric.Reader) (all []metricdata.Metrics) {
	t.Helper()
	var collected metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &collected))
	for _, scope := range collected.ScopeMetrics {
		if scope.Scope.Name == "github.com/redquorum/redquorum/contrib/otel" {
			all = append(all, scope.Metrics...)
		}
	}
	return all
}

// register registers the metrics of a Locker with a provider of its own.
func register(t *testing.T, locker *redlock.Locker, opts ...redotel.Option) sdkmetric.Reader {
	t.Helper()
	reader := sdkmetric.NewManualReader()
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	registration, err := redotel.RegisterMetrics(locker, append(opts, redotel.WithMeterProvider(provider))...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, registration.Unregister()) })
	return reader
}

func TestMetricsCountWhatHappensToLocks(t *testing.T) {
	c := redlocktest.Start(t, 5)
	locker := c.Locker(t)
	reader := register(t, locker)
	lock, err := locker.TryLock(t.Context(), "a")
	require.NoError(t, err)
	_, err = locker.TryLock(t.Context(), "a")
	require.ErrorIs(t, err, redlock.ErrTaken)
	got := collect(t, reader)
	assert.Equal(t, 1.0, got["redquorum.locks.held"])
	assert.Equal(t, 1.0, got["redquorum.locks.acquired"])
	assert.Equal(t, 1.0, got["redquorum.rounds.taken"])
	assert.Equal(t, 3.0, got["redquorum.quorum.nodes"])

	require.NoError(t, lock.Unlock(t.Context()))
	assert.Equal(t, 0.0, collect(t, reader)["redquorum.locks.held"])
}

func TestMetricsShowANodeThatIsAwayAndComesBackEmpty(t *testing.T) {
	c := redlocktest.Start(t, 3)
	locker := c.Locker(t)
	reader := register(t, locker)
	node := func(name string) float64 {
		t.Helper()
		got := collect(t, reader)
		key := "redquorum.node." + name + "{" + locker.Stats().Nodes[0].Endpoint + "}"
		require.Contains(t, got, key)
		return got[key]
	}
	assert.Equal(t, 1.0, node("up"))
	assert.Equal(t, 1.0, node("votes"))
	c.Node(0).Stop()
	assert.Equal(t, 0.0, node("up"))
	assert.Equal(t, 0.0, node("votes"))
	told := func() bool {
		got, key := collect(t, reader), "redquorum.node.trouble{"+locker.Stats().Nodes[0].Endpoint
		return got[key+",refused}"]+got[key+",ended}"]+got[key+",unreachable}"] == 1
	}
	assert.Eventually(t, told, 30*time.Second, time.Millisecond, "once it was dialed again")
	c.Node(0).Restart()
	assert.Equal(t, 1.0, node("up"))
	assert.Equal(t, 0.0, node("votes"))
	left := node("quarantine.remaining")
	assert.Greater(t, left, 0.0)
	assert.LessOrEqual(t, left, 60.0)
	assert.GreaterOrEqual(t, node("connects"), 2.0)
	assert.Contains(t, collect(t, reader), "redquorum.node.info{"+locker.Stats().Nodes[0].Endpoint+",redis}")
}

func TestTwoLockersAreToldApartByAnAttribute(t *testing.T) {
	c := redlocktest.Start(t, 1)
	reader := sdkmetric.NewManualReader()
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	orders, mail := c.Locker(t), c.Locker(t)
	for name, locker := range map[string]*redlock.Locker{"orders": orders, "mail": mail} {
		_, err := redotel.RegisterMetrics(locker, redotel.WithMeterProvider(provider),
			redotel.WithAttributes(attribute.String("locker", name)))
		require.NoError(t, err)
	}
	_, err := mail.TryLock(t.Context(), "a")
	require.NoError(t, err)
	got := collect(t, reader)
	assert.Equal(t, 0.0, got["redquorum.locks.held{orders}"])
	assert.Equal(t, 1.0, got["redquorum.locks.held{mail}"])
	assert.Contains(t, got, "redquorum.node.up{mail,"+mail.Stats().Nodes[0].Endpoint+"}")
}

func TestMetricsNeedALocker(t *testing.T) {
	_, err := redotel.RegisterMetrics(nil)
	assert.ErrorIs(t, err, redlock.ErrInvalid)
}

func TestEndpointsHaveNoPassword(t *testing.T) {
	locker, err := redlock.New([]string{"redis://user:secret@127.0.0.1:1"})
	require.NoError(t, err)
	defer locker.Close()
	for name := range collect(t, register(t, locker)) {
		assert.NotContains(t, name, "secret")
	}
}

// figure finds the name of a figure and what it is of the stats.
var figure = regexp.MustCompile(`(?:form\{\w+, |gauge\(|counter\()"([\w.]+)".* { return (.+?) }`)

// figuresOf returns what the figures of a source file are, by their names without the namespace.
func figuresOf(t *testing.T, path string) map[string]string {
	t.Helper()
	source, err := os.ReadFile(path)
	require.NoError(t, err)
	all := map[string]string{}
	for _, match := range figure.FindAllStringSubmatch(string(source), -1) {
		name := strings.TrimPrefix(strings.ReplaceAll(match[1], ".", "_"), "redquorum_")
		name = strings.TrimSuffix(strings.TrimSuffix(name, "_total"), "_seconds")
		all[name] = strings.TrimSuffix(strings.TrimPrefix(match[2], "float64("), ")")
	}
	return all
}

// The tests of contrib/prometheus require that there is one for every figure of Stats.
func TestTheFiguresAreThoseOfContribPrometheus(t *testing.T) {
	ours := figuresOf(t, "figures.go")
	assert.Equal(t, figuresOf(t, "../prometheus/prometheus.go"), ours)
	assert.Equal(t, "s.Held", ours["locks_held"])
	assert.GreaterOrEqual(t, len(ours), 25)
}

// Dashboards for contrib/prometheus then work behind OpenTelemetry's exporter for Prometheus, which
// writes underscores for dots, and appends the unit and "total".
func TestTheNamesAreThoseOfContribPrometheus(t *testing.T) {
	source, err := os.ReadFile("../prometheus/prometheus.go")
	require.NoError(t, err)
	theirs := []string{"redquorum_node_info"}
	for _, match := range regexp.MustCompile(`(?:gauge|counter)\("(\w+)"`).FindAllStringSubmatch(string(source), -1) {
		theirs = append(theirs, "redquorum_"+match[1])
	}
	c := redlocktest.Start(t, 1)
	var ours []string
	for _, m := range metrics(t, register(t, c.Locker(t))) {
		name := strings.ReplaceAll(m.Name, ".", "_")
		if m.Unit == "s" {
			name += "_seconds"
		} else if m.Unit != "" {
			assert.Regexp(t, `^\{\w+\}$`, m.Unit, "which the exporter leaves out")
		}
		if data, ok := m.Data.(metricdata.Sum[int64]); ok && data.IsMonotonic {
			name += "_total"
		}
		ours = append(ours, name)
		assert.NotEmpty(t, m.Description)
	}
	assert.ElementsMatch(t, theirs, ours)
}

func TestTheCodeOfTheReadmeCompiles(t *testing.T) {
	docs.RequireReadme(t, 1, "var endpoints []string", "redotel=github.com/redquorum/redquorum/contrib/otel")
}

// setGlobals sets the global providers. OpenTelemetry passes them on to what was made before only
// the first time, so a test that is run again uses the same.
var setGlobals = sync.OnceValues(func() (recorder, sdkmetric.Reader) {
	r, reader := newRecorder(), sdkmetric.NewManualReader()
	otel.SetTracerProvider(r.provider)
	otel.SetMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	return r, reader
})

func TestTheGlobalProvidersMayBeSetLaterAndTellNothingAfterUnregister(t *testing.T) {
	c := redlocktest.Start(t, 1)
	tracer := redotel.Tracer()
	registration, err := redotel.RegisterMetrics(c.Locker(t))
	require.NoError(t, err)

	r, reader := setGlobals()
	_, end := tracer.Start(t.Context(), redlock.Operation{Kind: redlock.OperationRelease, Name: "a"})
	end(nil)
	assert.Len(t, r.take(), 1)
	assert.Contains(t, collect(t, reader), "redquorum.locks.held")
	require.NoError(t, registration.Unregister())
	assert.Empty(t, collect(t, reader))
	require.NoError(t, registration.Unregister())
}
