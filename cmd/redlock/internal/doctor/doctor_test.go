package doctor

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/internal/redistest"
	"github.com/redquorum/redquorum/pool"
)

// durable makes a server that has nothing to be said against it.
var durable = redistest.WithArgs("--appendonly", "yes", "--appendfsync", "always")

// consult runs doctor and returns what it found.
func consult(t *testing.T, urls []string, args ...string) (status int, d diagnosis, text string) {
	t.Helper()
	args = append([]string{"doctor", "--nodes", strings.Join(urls, ",")}, args...)
	status, text, stderr := clitest.Line(clitest.Root(NewCommand()), args...)
	require.Empty(t, stderr)
	_, encoded, _ := clitest.Line(clitest.Root(NewCommand()), append(args, "--json")...)
	require.NoError(t, json.Unmarshal([]byte(encoded), &d), encoded)
	require.Len(t, d.Nodes, len(urls))
	return status, d, text
}

// requireFinding asserts that a node has this finding, by its check, besides it just the others,
// and that it is in the lines of that node.
func requireFinding(t *testing.T, d *diagnosis, text string, node int, s severity, check string, others []string, says ...string) {
	t.Helper()
	n := d.Nodes[node]
	require.ElementsMatch(t, append([]string{check}, others...), checksOf(n.Findings), "%+v", n)
	f := n.Findings[slices.Index(checksOf(n.Findings), check)]
	assert.Equal(t, s, f.Severity, "%+v", f)
	assert.NotEmpty(t, f.Why)
	assert.NotEmpty(t, f.Do)
	for _, s := range says {
		assert.Contains(t, f.What, s)
	}
	_, rest, found := strings.Cut(text, n.Endpoint+"  ")
	require.True(t, found, text)
	lines := strings.Split(rest, "\n")[1:]
	assert.Contains(t, lines[3*slices.Index(checksOf(n.Findings), check)], fmt.Sprintf("  %s: ", s), "in the lines below the node's")
}

func checksOf(findings []finding) (checks []string) {
	for _, f := range findings {
		checks = append(checks, f.Check)
	}
	return checks
}

// startDurable starts masters that vote.
func startDurable(t *testing.T, n int) []string {
	t.Helper()
	urls := clitest.URLs(redistest.Start(t, n, durable))
	clitest.Admit(t, urls...)
	return urls
}

// startMet starts a master that votes.
func startMet(t *testing.T, opts ...redistest.Option) *redistest.Server {
	t.Helper()
	s := redistest.StartOne(t, opts...)
	clitest.Admit(t, s.URL())
	return s
}

// startFor starts a durable master that votes, and returns the endpoint of a user with these
// rights.
func startFor(t *testing.T, rights ...any) string {
	t.Helper()
	s := startMet(t, durable)
	_, err := s.Do("ACL", append([]any{"SETUSER", "poor", "on", ">poverty"}, rights...)...)
	require.NoError(t, err)
	return "redis://poor:poverty@" + s.Addr()
}

func TestSoundMastersAreSafe(t *testing.T) {
	t.Parallel()
	servers := redistest.Start(t, 3, durable)
	clitest.Admit(t, clitest.URLs(servers)...)
	status, d, text := consult(t, clitest.URLs(servers))
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
		assert.True(t, n.Votes)
		assert.Equal(t, "active", n.Memory)
		assert.Zero(t, n.BarredMillis)
	}
	for _, s := range servers {
		keys, err := s.Keys()
		require.NoError(t, err)
		assert.Empty(t, keys, "nothing but the memory marker stays")
	}
	assert.Equal(t, 3, strings.Count(text, ", ok\n"), text)
	assert.Contains(t, text, "A quorum is safe: 3 of 3 masters without an error, 2 are needed.")
}

// A user with the rule of docs/operations.md has all the rights that a lock needs.
func TestDocumentedRightsAreSound(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../../docs/operations.md")
	require.NoError(t, err)
	_, rule, found := strings.Cut(string(text), "```\nACL SETUSER locks ")
	require.True(t, found, "the rule has gone from docs/operations.md")
	rule, _, _ = strings.Cut(rule, "```")
	args := []any{"SETUSER", "locks"}
	for word := range strings.FieldsSeq(rule) {
		args = append(args, word)
	}
	server := startMet(t, durable)
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
		also  []string // checks of other findings
	}{
		{"replica", func(t *testing.T) string {
			host, port, _ := strings.Cut(strings.TrimPrefix(sound[1], "redis://"), ":") // not the one with a twin: having a replica is a finding
			return redistest.StartOne(t, redistest.WithArgs("--replicaof", host, port)).URL()
		}, severe, "replica", []string{"a replica of 127.0.0.1:"}, nil},
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
			return strings.Replace(sound[0], "127.0.0.1", "localhost", 1)
		}, severe, "twin", []string{"the same server as " + sound[0]}, nil},
		{"slow", func(t *testing.T) string {
			p := redistest.NewProxy(t, startMet(t, durable).Addr())
			p.Delay(redistest.Replies, 150*time.Millisecond, 0)
			return p.URL()
		}, warning, "slow", []string{"a round trip takes 15", "waits 500ms"}, nil},
		{"forbidden", func(t *testing.T) string {
			return startFor(t, "~*", "&*", "+@all", "-eval")
		}, note, "permission", []string{"EVAL is refused: NOPERM"}, nil},
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
			return startFor(t, "~redquorum:doctor:*", "~redquorum:waits:*", "&*", "+@all")
		}, warning, "marker", []string{"redquorum:memory cannot be read: NOPERM"}, []string{"quarantine"}}, // by its uptime
		{"no time", func(t *testing.T) string {
			return startFor(t, "~*", "&*", "+@all", "-time")
		}, warning, "marker", []string{"redquorum:memory cannot be written"}, []string{"permission"}},
		{"no identity", func(t *testing.T) string {
			return startFor(t, "~*", "&*", "+@all", "-info")
		}, warning, "unidentified", []string{"NOPERM"}, nil},
		{"mute channels", func(t *testing.T) string {
			return startFor(t, "~*", "resetchannels", "+@all", "-subscribe")
		}, note, "permission", []string{"PUBLISH is refused: NOPERM"}, []string{"permission"}}, // SUBSCRIBE too
		{"snapshots", func(t *testing.T) string {
			return startMet(t, redistest.WithArgs("--save", "60", "1")).URL()
		}, note, "persistence", []string{"snapshots only"}, nil},
		{"rewrites", func(t *testing.T) string {
			return startMet(t, durable, redistest.WithArgs("--no-appendfsync-on-rewrite", "yes")).URL()
		}, note, "persistence", []string{"no-appendfsync-on-rewrite is yes"}, nil},
		{"new", func(t *testing.T) string {
			return redistest.StartOne(t, durable).URL()
		}, severe, "quarantine", []string{"quarantined for another ", "it had no memory when it was first met"}, nil},
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

func TestMastersWithoutPersistenceHaveANote(t *testing.T) {
	t.Parallel()
	urls := clitest.URLs(redistest.Start(t, 3))
	clitest.Admit(t, urls...)
	status, d, text := consult(t, urls)
	assert.Equal(t, 0, status, text)
	for i := range urls {
		requireFinding(t, &d, text, i, note, "persistence", nil, "no persistence: appendonly is no, and save is empty")
	}
}

// It makes no new master vote: with QuarantineStrict that is up to redlock init.
func TestDoctorLeavesANewClusterAsItIs(t *testing.T) {
	t.Parallel()
	servers := redistest.Start(t, 3, durable)
	status, d, text := consult(t, clitest.URLs(servers))
	assert.Equal(t, 0, status, text)
	for i, s := range servers {
		requireFinding(t, &d, text, i, note, "new", nil, "the first client makes them vote")
		assert.False(t, d.Nodes[i].Votes)
		assert.Regexp(t, "^new until ", clitest.Marker(t, s))
	}
	status, d, text = consult(t, clitest.URLs(servers), "--strict")
	assert.Equal(t, cli.ExitFailed, status, text)
	for i, s := range servers {
		requireFinding(t, &d, text, i, severe, "quarantine", nil, "redlock init")
		assert.Regexp(t, "^new until ", clitest.Marker(t, s))
	}
}

func TestANewClusterWithAMissingMasterSaysWhatToDo(t *testing.T) {
	t.Parallel()
	servers := redistest.Start(t, 3, durable)
	require.NoError(t, servers[2].Kill())
	status, d, text := consult(t, clitest.URLs(servers))
	assert.Equal(t, cli.ExitFailed, status, text)
	for i := range 2 {
		requireFinding(t, &d, text, i, severe, "quarantine", nil, "quarantined for another ", "redlock init")
		assert.Contains(t, d.Nodes[i].Findings[0].Do, "start the masters that are missing; or wait; or")
		assert.False(t, d.Nodes[i].Votes)
		assert.Equal(t, "new", d.Nodes[i].Memory)
		assert.Positive(t, d.Nodes[i].BarredMillis)
	}
	require.NoError(t, servers[2].Restart())
	status, _, text = consult(t, clitest.URLs(servers))
	assert.Equal(t, 0, status, text)
}

// A master that restarted empty, among others that did not.
func TestAMasterThatForgotIsQuarantinedForItsTime(t *testing.T) {
	t.Parallel()
	servers := redistest.Start(t, 3)
	clitest.Admit(t, clitest.URLs(servers)...)
	require.NoError(t, servers[2].Restart())
	_, d, text := consult(t, clitest.URLs(servers))
	requireFinding(t, &d, text, 2, severe, "quarantine", []string{"persistence"}, "quarantined for another ", "may have forgotten locks")
	assert.Regexp(t, "^wait; or, ", d.Nodes[2].Findings[0].Do)
	assert.Equal(t, []string{"persistence"}, checksOf(d.Nodes[0].Findings))
}

func TestClockThatIsOffIsNamed(t *testing.T) {
	t.Parallel()
	const preload = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"
	if _, err := os.Stat(preload); err != nil || runtime.GOOS != "linux" {
		t.Skipf("no %s: install libfaketime to run this test", preload)
	}
	if os.Getenv("REDQUORUM_SERVER") != "" {
		t.Skip("libfaketime is this machine's, and the chosen server may have a C library of its own")
	}
	libc, err := filepath.Glob("/lib/x86_64-linux-gnu/libc.so.6")
	require.NoError(t, err)
	redistest.Require(t)
	urls := startDurable(t, 2)
	for offset, says := range map[string]string{"-10s": "behind ours", "+10s": "ahead of ours"} {
		off := redistest.StartOne(t, durable, redistest.WithEnv("LD_PRELOAD="+strings.Join(append([]string{preload}, libc...), ":"),
			"FAKETIME="+offset, "FAKETIME_NO_CACHE=1", "DONT_FAKE_MONOTONIC=1"))
		clitest.Admit(t, off.URL())
		_, d, text := consult(t, append(urls, off.URL()))
		requireFinding(t, &d, text, 2, severe, "clock", nil, says)
		assert.InDelta(t, 10_000, max(d.Nodes[2].OffsetMillis, -d.Nodes[2].OffsetMillis), 1000)
		assert.Empty(t, d.Nodes[0].Findings)
	}
}

func TestStatusIsOneWithoutASafeQuorum(t *testing.T) {
	t.Parallel()
	urls := startDurable(t, 1) // which votes, alone
	status, d, text := consult(t, append(urls, "redis://127.0.0.1:1", "redis://127.0.0.1:2"))
	assert.Equal(t, cli.ExitFailed, status)
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
		{"just started", facts{runID: "x", info: map[string]string{"uptime_in_seconds": "0"}, denied: map[string]error{"CONFIG GET": errors.New("NOPERM")}}, "note permission"},
		{"every second", facts{runID: "x", config: map[string]string{"appendonly": "yes", "appendfsync": "everysec"}}, "note persistence"},
		{"not during rewrites", facts{runID: "x", config: map[string]string{"appendonly": "yes", "appendfsync": "always", "no-appendfsync-on-rewrite": "yes"}}, "note persistence"},
		{"memory full", facts{runID: "x", durable: true, unwritable: errors.New("OOM")}, "warning marker"},
		{"memory of another", facts{runID: "x", durable: true, marker: "active abc y 1 60000 z"}, "warning marker"},
		{"its own memory", facts{runID: "x", durable: true, marker: "active abc x 1 60000 z"}, ""},
		{"memory of whoever", facts{runID: "x", durable: true, marker: "active abc - 1 60000 -"}, ""},
		{"new", facts{runID: "x", durable: true, marker: "new until 1 abc x 1 60000 z", barred: pool.ErrQuarantined}, "error quarantine"},
		{"no config", facts{runID: "x", denied: map[string]error{"CONFIG GET": errors.New("NOPERM")}}, "note permission"},
		{"too slow", facts{runID: "x", durable: true, roundTrip: 501 * time.Millisecond}, "error slow"},
		{"once slow", facts{runID: "x", durable: true, slowest: 501 * time.Millisecond}, "warning slow"},
		{"a bit slow", facts{runID: "x", durable: true, roundTrip: 126 * time.Millisecond}, "warning slow"},
		{"fast enough", facts{runID: "x", durable: true, roundTrip: 125 * time.Millisecond, slowest: 500 * time.Millisecond}, ""},
		{"a bit late", facts{runID: "x", durable: true, offset: -1101 * time.Millisecond, offsetOK: true, doubt: 100 * time.Millisecond}, "warning clock"},
		{"perhaps late", facts{runID: "x", durable: true, offset: -1100 * time.Millisecond, offsetOK: true, doubt: 100 * time.Millisecond}, ""},
		{"early", facts{runID: "x", durable: true, offset: 5001 * time.Millisecond, offsetOK: true}, "error clock"},
		{"undeclared keys", facts{runID: "x", durable: true, derived: errors.New("script tried accessing undeclared key")}, "warning derived"},
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
