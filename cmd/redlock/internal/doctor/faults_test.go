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
	sound := startDurable(t, 2)
	for _, c := range []struct {
		name  string
		start func(t *testing.T) string
		s     severity
		check string
		says  []string
		also  []string // checks of other findings
	}{
		{"replica", func(t *testing.T) string {
			// Not the master with a duplicate: having a replica is a finding.
			host, port, _ := strings.Cut(strings.TrimPrefix(sound[1], "redis://"), ":")
			return redistest.StartOne(t, redistest.WithArgs("--replicaof", host, port)).URL()
		}, severe, "replica", []string{"a replica of " + redistest.Host() + ":"}, nil},
		{"cluster", func(t *testing.T) string {
			return redistest.StartOne(t, redistest.WithArgs("--cluster-enabled", "yes")).URL()
		}, severe, "mode", []string{"in cluster mode"}, nil},
		{"password", func(t *testing.T) string {
			return "redis://:guess@" + redistest.StartOne(t, redistest.WithPassword("sesame")).Addr()
		}, severe, "password", []string{"WRONGPASS"}, nil},
		{"no password", func(t *testing.T) string {
			return redistest.StartOne(t, redistest.WithPassword("sesame")).Addr()
		}, severe, "password", []string{"NOAUTH"}, nil},
		{"eviction", func(t *testing.T) string {
			return startMet(t, durable, redistest.WithArgs("--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")).URL()
		}, severe, "eviction", []string{"allkeys-lru", "104857600"}, nil},
		{"unreachable", func(t *testing.T) string {
			s := redistest.StartOne(t)
			require.NoError(t, s.Kill())
			return s.URL()
		}, severe, "unreachable", []string{"connection refused"}, nil},
		{"mute", func(t *testing.T) string {
			p := redistest.NewProxy(t, strings.TrimPrefix(sound[0], "redis://"))
			p.Drop(redistest.Both, true)
			return p.URL()
		}, severe, "unreachable", []string{"not ready within 2s"}, nil},
		{"twin", func(*testing.T) string {
			return redistest.OtherName(sound[0])
		}, severe, "twin", []string{"the same server as " + sound[0] + " (run_id "}, nil},
		{"forbidden", func(t *testing.T) string {
			return startFor(t, "~*", "&*", "+@all", "-eval")
		}, note, "permission", []string{"EVAL is refused: NOPERM"}, nil},
		{"enough for other libraries", func(t *testing.T) string {
			return startFor(t, "~*", "&*", "+@all", "-pttl")
		}, warning, "permission", []string{"PTTL is refused: NOPERM"}, nil},
		{"cannot renew", func(t *testing.T) string {
			return startFor(t, "~*", "&*", "+@all", "-pexpire")
		}, severe, "permission", []string{"PEXPIRE is refused: NOPERM"}, nil},
		{"unknown authority", func(t *testing.T) string {
			server := httptest.NewTLSServer(nil)
			t.Cleanup(server.Close)
			return "rediss://" + server.Listener.Addr().String()
		}, severe, "unreachable", []string{"its certificate is not trusted", "unknown authority"}, nil},
		{"cannot compare", func(t *testing.T) string {
			return startFor(t, "~*", "&*", "+@all", "-get")
		}, severe, "permission", []string{"GET is refused: NOPERM"}, []string{"quarantine", "marker"}},
		{"cannot run scripts", func(t *testing.T) string {
			return startFor(t, "~*", "&*", "+@all", "-evalsha")
		}, severe, "scripts", []string{"scripts cannot be run: EVALSHA: NOPERM"}, nil},
		{"narrow", func(t *testing.T) string {
			return startFor(t, "~redquorum:doctor:*", "~redquorum:memory", "&*", "+@all")
		}, warning, "derived", []string{"keys that a script derives from its own are refused"}, nil},
		{"no marker", func(t *testing.T) string {
			return startFor(t, "~redquorum:[a-l]*", "~redquorum:[n-z]*", "&*", "+@all")
			// Judged by its uptime.
		}, warning, "marker", []string{"redquorum:memory cannot be read: NOPERM"}, []string{"quarantine"}},
		{"no time", func(t *testing.T) string {
			return startFor(t, "~*", "&*", "+@all", "-time")
		}, warning, "marker", []string{"redquorum:memory cannot be written"}, []string{"permission"}},
		{"no identity", func(t *testing.T) string {
			return startFor(t, "~*", "&*", "+@all", "-info")
		}, warning, "unidentified", []string{"NOPERM"}, nil},
		{"mute channels", func(t *testing.T) string {
			return startFor(t, "~*", "resetchannels", "+@all", "-subscribe")
			// SUBSCRIBE too
		}, note, "permission", []string{"PUBLISH is refused: NOPERM"}, []string{"permission"}},
		{"no semaphores", func(t *testing.T) string {
			return startFor(t, "~*", "&*", "+@all", "-mget")
		}, note, "semaphores", []string{"no semaphores: MGET is refused: ERR"}, []string{"any"}},
		{"no permits", func(t *testing.T) string {
			return startFor(t, "~redquorum:[a-oq-z]*", "~redquorum:permit:*", "&*", "+@all")
		}, note, "semaphores", []string{"no semaphores: redquorum:permits:* is refused: ERR"}, nil},
		{"no shared locks", func(t *testing.T) string {
			return startFor(t, "~redquorum:[a-qs-z]*", "&*", "+@all", "-zremrangebyscore")
		}, note, "shared", []string{"no shared locks: ZREMRANGEBYSCORE is refused: ERR"}, nil},
		{"no fencing", func(t *testing.T) string {
			return startFor(t, "~redquorum:[a-eg-z]*", "&*", "+@all")
		}, note, "fencing", []string{"no fencing tokens: redquorum:fence:* is refused: ERR"}, nil},
		{"no elections", func(t *testing.T) string {
			return startFor(t, "~redquorum:[a-su-z]*", "&*", "+@all")
		}, note, "elections", []string{"no elections: redquorum:terms:* is refused: ERR"}, nil},
		{"terms are read only", func(t *testing.T) string {
			return startFor(t, "~redquorum:[a-su-z]*", "%R~redquorum:terms:*", "&*", "+@all")
		}, note, "elections", []string{"no elections: redquorum:terms:* is refused: ERR"}, nil},
		{"snapshots", func(t *testing.T) string {
			return startMet(t, redistest.WithArgs("--save", "60", "1")).URL()
		}, note, "persistence", []string{"snapshots only"}, nil},
		{"rewrites", func(t *testing.T) string {
			return startMet(t, durable, redistest.WithArgs("--no-appendfsync-on-rewrite", "yes")).URL()
		}, note, "persistence", []string{"no-appendfsync-on-rewrite is yes"}, nil},
		{"new", func(t *testing.T) string {
			return redistest.StartOne(t, durable).URL()
		}, severe, "quarantine", []string{"quarantined for another ", "it restarted without its keys, or is a new server"}, nil},
		{"lost", func(t *testing.T) string {
			s := redistest.StartOne(t, durable)
			_, err := s.Do("SET", pipeline.MemoryKey, "somebody else's")
			require.NoError(t, err)
			return s.URL()
		}, severe, "quarantine", []string{"quarantined for another ", "it lost its keys"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			urls := append(append([]string{}, sound...), c.start(t))
			status, d, text := consult(t, urls)
			requireFinding(t, &d, text, 2, c.s, c.check, c.also, c.says...)
			assert.Equal(t, 0, status, "two of three are sound: %s", text)
			for _, secret := range []string{"sesame", "guess", "poverty"} {
				assert.NotContains(t, text, secret)
			}
		})
	}
}

func TestSlowMasterIsNamed(t *testing.T) {
	t.Parallel()
	const delay = 150 * time.Millisecond
	p := redistest.NewProxy(t, startMet(t, durable).Addr())
	p.Delay(redistest.Replies, delay, 0)
	_, d := examine(t, []string{p.URL()})
	i := slices.Index(checksOf(d.Nodes[0].Findings), "slow")
	require.GreaterOrEqual(t, i, 0, "%+v", d.Nodes[0])
	f := d.Nodes[0].Findings[i]
	assert.Contains(t, f.What, "a round trip takes ")
	assert.Contains(t, f.What, "waits 500ms")
	assert.GreaterOrEqual(t, d.Nodes[0].RoundTripMicros, delay.Microseconds())
}

// What doctor proposes is what makes the finding go away, also for a prefix that is a pattern.
func TestTheProposedRightsAreEnough(t *testing.T) {
	t.Parallel()
	const prefix = `a[p]p*\?:`
	quoted := strings.NewReplacer(`\`, `\\`, `[`, `\[`, `*`, `\*`, `?`, `\?`).Replace(prefix)
	s := startMet(t, durable)
	setUser := func(rules ...string) {
		args := []any{"SETUSER", "poor", "on", ">poverty"}
		for _, rule := range rules {
			args = append(args, rule)
		}
		_, err := s.Do("ACL", args...)
		require.NoError(t, err)
	}
	setUser("~"+quoted+"*", "~redquorum:waits:"+quoted+"*", "~redquorum:memory", "&*", "+@all", "-mget", "-zadd", "-zcard", "-pexpireat")
	url := "redis://poor:poverty@" + s.Addr()
	_, d, text := consult(t, []string{url}, "--key-prefix", prefix)
	requireFinding(t, &d, text, 0, note, "elections", []string{"any", "fencing", "semaphores", "shared"})
	for _, f := range d.Nodes[0].Findings {
		_, rules, found := strings.Cut(f.Do, "ACL SETUSER … ")
		require.True(t, found, f.Do)
		setUser(strings.Fields(rules)...)
	}
	_, d, text = consult(t, []string{url}, "--key-prefix", prefix)
	assert.Empty(t, d.Nodes[0].Findings, text)
	_, d, _ = consult(t, []string{url}, "--key-prefix", "app:")
	assert.NotEmpty(t, d.Nodes[0].Findings, "the rights are those of that prefix only")
}
