package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/redistest"
	"github.com/redquorum/redquorum/pool"
)

// durable makes a server that has nothing to be said against it, and whose youth does not matter.
var durable = redistest.WithArgs("--appendonly", "yes", "--appendfsync", "always")

// consult runs doctor and returns what it found.
func consult(t *testing.T, urls []string, args ...string) (status int, d diagnosis, text string) {
	t.Helper()
	args = append([]string{"doctor", "--nodes", strings.Join(urls, ",")}, args...)
	status, text, stderr := line(args...)
	require.Empty(t, stderr)
	_, encoded, _ := line(append(args, "--json")...)
	require.NoError(t, json.Unmarshal([]byte(encoded), &d), encoded)
	require.Len(t, d.Nodes, len(urls))
	return status, d, text
}

// requireFinding asserts that a node has just this finding, by its check, and that it is in the lines of that node.
func requireFinding(t *testing.T, d *diagnosis, text string, node int, s severity, check string, says ...string) {
	t.Helper()
	n := d.Nodes[node]
	require.Len(t, n.Findings, 1, "%+v", n)
	f := n.Findings[0]
	assert.Equal(t, s, f.Severity, "%+v", f)
	assert.Equal(t, check, f.Check, "%+v", f)
	assert.NotEmpty(t, f.Why)
	assert.NotEmpty(t, f.Do)
	for _, s := range says {
		assert.Contains(t, f.What, s)
	}
	_, rest, found := strings.Cut(text, n.Endpoint+"  ")
	require.True(t, found, text)
	lines := strings.SplitN(rest, "\n", 3)
	assert.Contains(t, lines[1], fmt.Sprintf("  %s: ", s), "in the line below the node's")
}

func startDurable(t *testing.T, n int) []string {
	t.Helper()
	return urlsOf(redistest.Start(t, n, durable))
}

func TestSoundMastersAreSafe(t *testing.T) {
	t.Parallel()
	urls := startDurable(t, 3)
	status, d, text := consult(t, urls)
	assert.Equal(t, 0, status, text)
	assert.True(t, d.Safe)
	assert.Equal(t, 3, d.Sound)
	assert.Empty(t, d.Findings)
	for _, n := range d.Nodes {
		assert.Empty(t, n.Findings)
		assert.True(t, n.Reachable)
		assert.Equal(t, "master", n.Role)
		assert.NotEmpty(t, n.Product)
		assert.NotEmpty(t, n.Version)
		assert.NotEmpty(t, n.RunID)
		assert.Positive(t, n.RoundTripMicros)
	}
	assert.Equal(t, 3, strings.Count(text, ", ok\n"), text)
	assert.Contains(t, text, "A quorum is safe: 3 of 3 masters without an error, 2 are needed.")
}

// A user with the rule of docs/operations.md has all the rights that a lock needs.
func TestDocumentedRightsAreSound(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	_, rule, found := strings.Cut(string(text), "```\nACL SETUSER locks ")
	require.True(t, found, "the rule has gone from docs/operations.md")
	rule, _, _ = strings.Cut(rule, "```")
	args := []any{"SETUSER", "locks"}
	for word := range strings.FieldsSeq(rule) {
		args = append(args, word)
	}
	server := redistest.StartOne(t, durable)
	_, err = server.Do("ACL", args...)
	require.NoError(t, err)
	_, d, output := consult(t, []string{"redis://locks:password@" + server.Addr()})
	assert.Empty(t, d.Nodes[0].Findings, output)
}

// Each fault is alone among sound masters, so that what is found is found for its sake.
func TestDoctorNamesThePlantedFault(t *testing.T) {
	t.Parallel()
	sound := startDurable(t, 2)
	for _, c := range []struct {
		name  string
		start func(t *testing.T) string
		s     severity
		check string
		says  []string
	}{
		{"replica", func(t *testing.T) string {
			host, port, _ := strings.Cut(strings.TrimPrefix(sound[1], "redis://"), ":") // not the one with a twin: having a replica is a finding
			return redistest.StartOne(t, redistest.WithArgs("--replicaof", host, port)).URL()
		}, severe, "replica", []string{"a replica of 127.0.0.1:"}},
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
			return redistest.StartOne(t, durable, redistest.WithArgs("--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")).URL()
		}, severe, "eviction", []string{"allkeys-lru", "104857600"}},
		{"unreachable", func(t *testing.T) string {
			s := redistest.StartOne(t)
			require.NoError(t, s.Kill())
			return s.URL()
		}, severe, "unreachable", []string{"connection refused"}},
		{"mute", func(t *testing.T) string {
			p := redistest.NewProxy(t, strings.TrimPrefix(sound[0], "redis://"))
			p.Drop(redistest.Both, true)
			return p.URL()
		}, severe, "unreachable", []string{"not ready within 2s"}},
		{"twin", func(*testing.T) string {
			return strings.Replace(sound[0], "127.0.0.1", "localhost", 1)
		}, severe, "twin", []string{"the same server as " + sound[0]}},
		{"slow", func(t *testing.T) string {
			p := redistest.NewProxy(t, redistest.StartOne(t, durable).Addr())
			p.Delay(redistest.Replies, 150*time.Millisecond, 0)
			return p.URL()
		}, warning, "slow", []string{"a round trip takes 15", "waits 500ms"}},
		{"forbidden", func(t *testing.T) string {
			s := redistest.StartOne(t, durable)
			_, err := s.Do("ACL", "SETUSER", "poor", "on", ">poverty", "~*", "&*", "+@all", "-eval")
			require.NoError(t, err)
			return "redis://poor:poverty@" + s.Addr()
		}, note, "permission", []string{"EVAL is refused: NOPERM"}},
		{"cannot compare", func(t *testing.T) string {
			s := redistest.StartOne(t, durable)
			_, err := s.Do("ACL", "SETUSER", "poor", "on", ">poverty", "~*", "&*", "+@all", "-get")
			require.NoError(t, err)
			return "redis://poor:poverty@" + s.Addr()
		}, severe, "permission", []string{"GET is refused: NOPERM"}},
		{"cannot run scripts", func(t *testing.T) string {
			s := redistest.StartOne(t, durable)
			_, err := s.Do("ACL", "SETUSER", "poor", "on", ">poverty", "~*", "&*", "+@all", "-evalsha")
			require.NoError(t, err)
			return "redis://poor:poverty@" + s.Addr()
		}, severe, "scripts", []string{"scripts cannot be run: EVALSHA: NOPERM"}},
		{"mute channels", func(t *testing.T) string {
			s := redistest.StartOne(t, durable)
			_, err := s.Do("ACL", "SETUSER", "mute", "on", ">poverty", "~*", "resetchannels", "+@all", "-subscribe")
			require.NoError(t, err)
			return "redis://mute:poverty@" + s.Addr()
		}, note, "permission", []string{"SUBSCRIBE is refused: NOPERM"}},
		{"snapshots", func(t *testing.T) string {
			return redistest.StartOne(t, redistest.WithArgs("--save", "60", "1")).URL()
		}, severe, "young", []string{"started", "ago and may have forgotten locks"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			urls := append(append([]string{}, sound...), c.start(t))
			status, d, text := consult(t, urls)
			n := &d.Nodes[2]
			switch c.name {
			case "mute channels": // PUBLISH too: the channel is not allowed
				require.Len(t, n.Findings, 2, "%+v", n)
				n.Findings = n.Findings[1:]
			case "snapshots":
				require.Len(t, n.Findings, 2, "%+v", n)
				assert.Contains(t, n.Findings[1].What, "snapshots only")
				n.Findings = n.Findings[:1]
			}
			requireFinding(t, &d, text, 2, c.s, c.check, c.says...)
			assert.Equal(t, 0, status, "two of three are sound: %s", text)
			for _, secret := range []string{"sesame", "guess", "poverty"} {
				assert.NotContains(t, text, secret)
			}
		})
	}
}

func TestMastersWithoutPersistenceHaveANote(t *testing.T) {
	t.Parallel()
	status, d, text := consult(t, append(startDurable(t, 2), urlsOf(redistest.Start(t, 3))...))
	assert.Equal(t, 0, status, text)
	for _, n := range d.Nodes[2:] { // three of five are young, and trusted for it
		require.Len(t, n.Findings, 2, "%+v", n)
		assert.Equal(t, []string{"young", "persistence"}, []string{n.Findings[0].Check, n.Findings[1].Check})
		assert.Contains(t, n.Findings[1].What, "no persistence: appendonly is no, and save is empty")
		assert.Equal(t, note, n.Findings[1].Severity)
	}
}

// A server that was just started among others that were not.
func TestYoungMasterIsNamed(t *testing.T) {
	t.Parallel()
	servers := redistest.Start(t, 3)
	waitFor(t, "three seconds of age", func() bool {
		info, err := redis.String(servers[0].Do("INFO", "server"))
		return err == nil && strings.Contains(info, "uptime_in_seconds:3")
	})
	require.NoError(t, servers[2].Restart())
	_, d, text := consult(t, urlsOf(servers), "--max-ttl", "1500ms", "--ttl", "1s")
	n := &d.Nodes[2]
	require.Len(t, n.Findings, 2, "%+v", n)
	n.Findings = n.Findings[:1]
	requireFinding(t, &d, text, 2, severe, "young", "quarantined for another", "may have forgotten locks")
	assert.Len(t, d.Nodes[0].Findings, 1, "no longer young: %+v", d.Nodes[0])
}

func TestClockThatIsOffIsNamed(t *testing.T) {
	t.Parallel()
	const preload = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"
	if _, err := os.Stat(preload); err != nil || runtime.GOOS != "linux" {
		t.Skipf("no %s: install libfaketime to run this test", preload)
	}
	libc, err := filepath.Glob("/lib/x86_64-linux-gnu/libc.so.6")
	require.NoError(t, err)
	redistest.Require(t)
	urls := startDurable(t, 2)
	for offset, says := range map[string]string{"-10s": "behind ours", "+10s": "ahead of ours"} {
		off := redistest.StartOne(t, durable, redistest.WithEnv("LD_PRELOAD="+strings.Join(append([]string{preload}, libc...), ":"),
			"FAKETIME="+offset, "FAKETIME_NO_CACHE=1", "DONT_FAKE_MONOTONIC=1"))
		_, d, text := consult(t, append(urls, off.URL()))
		requireFinding(t, &d, text, 2, severe, "clock", says)
		assert.InDelta(t, 10_000, max(d.Nodes[2].OffsetMillis, -d.Nodes[2].OffsetMillis), 1000)
		assert.Empty(t, d.Nodes[0].Findings)
	}
}

func TestStatusIsOneWithoutASafeQuorum(t *testing.T) {
	t.Parallel()
	urls := startDurable(t, 1)
	status, d, text := consult(t, append(urls, "redis://127.0.0.1:1", "redis://127.0.0.1:2"))
	assert.Equal(t, exitFailed, status)
	assert.False(t, d.Safe)
	assert.Contains(t, text, "NO QUORUM IS SAFE: 1 of 3 masters without an error, 2 are needed.")
}

// What no server here can be brought to.
func TestFindingsFromFacts(t *testing.T) {
	for _, c := range []struct {
		name string
		f    facts
		want string // severity and check of each finding
	}{
		{"nothing", facts{runID: "x", durable: true}, ""},
		{"no identity", facts{durable: true, denied: map[string]error{"INFO": errors.New("NOPERM")}}, "warning unidentified"},
		{"old", facts{runID: "x", durable: true, product: "redis", version: "4.0.14"}, "warning version"},
		{"new", facts{runID: "x", durable: true, product: "redis", version: "10.0.1"}, ""},
		{"no Redis", facts{runID: "x", durable: true, product: "garnet", version: "1.0.48"}, ""},
		{"has replicas", facts{runID: "x", durable: true, info: map[string]string{"connected_slaves": "2"}}, "note replicated"},
		{"full", facts{runID: "x", durable: true, info: map[string]string{"maxmemory": "1000", "maxmemory_policy": "noeviction", "used_memory": "901"}}, "warning memory"},
		{"has room", facts{runID: "x", durable: true, info: map[string]string{"maxmemory": "1000", "maxmemory_policy": "noeviction", "used_memory": "900"}}, ""},
		{"no limit", facts{runID: "x", durable: true, info: map[string]string{"maxmemory": "0", "maxmemory_policy": "allkeys-lru", "used_memory": "900"}}, ""},
		{"cannot save", facts{runID: "x", durable: true, info: map[string]string{"rdb_last_bgsave_status": "err"}}, "warning save"},
		{"just started", facts{runID: "x", info: map[string]string{"uptime_in_seconds": "0"}, denied: map[string]error{"CONFIG GET": errors.New("NOPERM")}}, "note young, note permission"},
		{"every second", facts{runID: "x", config: map[string]string{"appendonly": "yes", "appendfsync": "everysec"}}, "note persistence"},
		{"no config", facts{runID: "x", denied: map[string]error{"CONFIG GET": errors.New("NOPERM")}}, "note permission"},
		{"too slow", facts{runID: "x", durable: true, roundTrip: 501 * time.Millisecond}, "error slow"},
		{"once slow", facts{runID: "x", durable: true, slowest: 501 * time.Millisecond}, "warning slow"},
		{"a bit slow", facts{runID: "x", durable: true, roundTrip: 126 * time.Millisecond}, "warning slow"},
		{"fast enough", facts{runID: "x", durable: true, roundTrip: 125 * time.Millisecond, slowest: 500 * time.Millisecond}, ""},
		{"a bit late", facts{runID: "x", durable: true, offset: -1101 * time.Millisecond, offsetOK: true, doubt: 100 * time.Millisecond}, "warning clock"},
		{"perhaps late", facts{runID: "x", durable: true, offset: -1100 * time.Millisecond, offsetOK: true, doubt: 100 * time.Millisecond}, ""},
		{"early", facts{runID: "x", durable: true, offset: 5001 * time.Millisecond, offsetOK: true}, "error clock"},
		{"stalled", facts{runID: "x", err: pool.ErrTimeout}, "error unreachable"},
	} {
		var got []string
		for _, f := range c.f.check(limits{ttl: 30 * time.Second, maxTTL: time.Minute}) {
			got = append(got, string(f.Severity)+" "+f.Check)
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("%s: got %q, want %q", c.name, text, c.want)
		}
	}
	for n, want := range map[int]string{1: "warning", 2: "note", 3: "", 4: "note", 5: ""} {
		var got string
		if found := checkNumber(n); len(found) > 0 {
			got = string(found[0].Severity)
		}
		if got != want {
			t.Errorf("%d masters: got %q, want %q", n, got, want)
		}
	}
}
