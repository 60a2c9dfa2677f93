package doctor

import (
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

// Each faulty master is alone among sound ones, so the findings are about its fault.
func TestDoctorNamesThePlantedFault(t *testing.T) {
	t.Parallel()
	_, sound := startMet(t, 2, durable)
	met := func(t *testing.T, opts ...redistest.Option) string {
		_, urls := startMet(t, 1, opts...)
		return urls[0]
	}
	for _, c := range []struct {
		name  string
		start func(t *testing.T) string
		s     severity
		check string
		says  []string
	}{
		{"replica", func(t *testing.T) string {
			// Not the master with a duplicate: having a replica is a finding.
			host, port, _ := strings.Cut(strings.TrimPrefix(sound[1], "redis://"), ":")
			return redistest.StartOne(t, redistest.WithArgs("--replicaof", host, port)).URL()
		}, severe, "replica", []string{"a replica of " + redistest.Host() + ":"}},
		{"cluster", func(t *testing.T) string {
			return redistest.StartOne(t, redistest.WithArgs("--cluster-enabled", "yes")).URL()
		}, severe, "mode", []string{"in cluster mode"}},
		{"password", func(t *testing.T) string {
			return "redis://:guess@" + redistest.StartOne(t, redistest.WithPassword("sesame")).Addr()
		}, severe, "password", []string{"WRONGPASS"}},
		{"no password", func(t *testing.T) string {
			return redistest.StartOne(t, redistest.WithPassword("sesame")).Addr()
		}, severe, "password", []string{"NOAUTH"}},
		{"eviction", func(t *testing.T) string {
			return met(t, durable, redistest.WithArgs("--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"))
		}, severe, "eviction", []string{"allkeys-lru", "104857600"}},
		{"unreachable", func(*testing.T) string { return away }, severe, "unreachable", []string{"connection refused"}},
		{"mute", func(t *testing.T) string {
			p := redistest.NewProxy(t, strings.TrimPrefix(sound[0], "redis://"))
			p.Drop(redistest.Both, true)
			return p.URL()
		}, severe, "unreachable", []string{"not ready within 2s"}},
		{
			"twin", func(*testing.T) string { return redistest.OtherName(sound[0]) },
			severe, "twin",
			[]string{"the same server as " + sound[0] + " (run_id "},
		},
		{"unknown authority", func(t *testing.T) string {
			server := httptest.NewTLSServer(nil)
			t.Cleanup(server.Close)
			return "rediss://" + server.Listener.Addr().String()
		}, severe, "unreachable", []string{"its certificate is not trusted", "unknown authority"}},
		{"snapshots", func(t *testing.T) string {
			return met(t, redistest.WithArgs("--save", "60", "1"))
		}, note, "persistence", []string{"snapshots only"}},
		{"rewrites", func(t *testing.T) string {
			return met(t, durable, redistest.WithArgs("--no-appendfsync-on-rewrite", "yes"))
		}, note, "persistence", []string{"no-appendfsync-on-rewrite is yes"}},
		{"new", func(t *testing.T) string {
			return redistest.StartOne(t, durable).URL()
		}, severe, "quarantine", []string{"quarantined for another ", "it restarted without its keys, or is a new server"}},
		{"lost", func(t *testing.T) string {
			s := redistest.StartOne(t, durable)
			_, err := s.Do("SET", pipeline.MemoryKey, "somebody else's")
			require.NoError(t, err)
			return s.URL()
		}, severe, "quarantine", []string{"quarantined for another ", "it lost its keys"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			status, d, text := consult(t, []string{sound[0], sound[1], c.start(t)})
			requireFinding(t, &d, text, 2, c.s, c.check, nil, c.says...)
			assert.Equal(t, 0, status, "two of three are sound: %s", text)
			assert.NotContains(t, text, "sesame")
			assert.NotContains(t, text, "guess")
		})
	}
}

func TestSlowMasterIsNamed(t *testing.T) {
	t.Parallel()
	const delay = 30 * time.Millisecond
	servers, _ := startMet(t, 1, durable)
	p := redistest.NewProxy(t, servers[0].Addr())
	p.Delay(redistest.Replies, delay, 0)
	_, d := examine(t, []string{p.URL()}, "--ttl", "2s")
	i := slices.Index(checksOf(d.Nodes[0].Findings), "slow")
	require.GreaterOrEqual(t, i, 0, "%+v", d.Nodes[0])
	f := d.Nodes[0].Findings[i]
	assert.Contains(t, f.What, "a round trip takes ")
	assert.Contains(t, f.What, "waits 100ms")
	assert.GreaterOrEqual(t, d.Nodes[0].RoundTripMicros, delay.Microseconds())
}
