package doctor

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/cmd/redlock/internal/terminal"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/internal/prose"
	"github.com/redquorum/redquorum/internal/trouble"
	"github.com/redquorum/redquorum/pool"
)

var errFull = redis.Error("OOM command not allowed when used memory > 'maxmemory'.")

// Facts that no server in these tests can be made to show.
func TestFindingsFromFacts(t *testing.T) {
	for _, c := range []struct {
		name string
		f    facts
		want string // severity and check of each finding
	}{
		{"nothing", facts{runID: "x", durable: true}, ""},
		{"no identity", facts{durable: true, denied: map[string]error{"INFO": redis.Error("NOPERM")}}, "warning unidentified"},
		{"old", facts{runID: "x", durable: true, product: "redis", version: "4.0.14"}, "warning version"},
		{"new", facts{runID: "x", durable: true, product: "redis", version: "10.0.1"}, ""},
		{"no Redis", facts{runID: "x", durable: true, product: "garnet", version: "1.0.48"}, ""},
		{"has replicas", facts{runID: "x", durable: true, info: map[string]string{"connected_slaves": "2"}}, "note replicated"},
		{"full", facts{runID: "x", durable: true, info: map[string]string{"maxmemory": "1000", "maxmemory_policy": "noeviction", "used_memory": "901"}}, "warning memory"},
		{"has room", facts{runID: "x", durable: true, info: map[string]string{"maxmemory": "1000", "maxmemory_policy": "noeviction", "used_memory": "900"}}, ""},
		{"no limit", facts{runID: "x", durable: true, info: map[string]string{"maxmemory": "0", "maxmemory_policy": "allkeys-lru", "used_memory": "900"}}, ""},
		{"cannot save", facts{runID: "x", durable: true, info: map[string]string{"rdb_last_bgsave_status": "err"}}, "warning save"},
		{"just started", facts{runID: "x", info: map[string]string{"uptime_in_seconds": "0"}, denied: map[string]error{"CONFIG GET": redis.Error("NOPERM")}}, "note permission"},
		{"every second", facts{runID: "x", config: map[string]string{"appendonly": "yes", "appendfsync": "everysec"}}, "note persistence"},
		{"not during rewrites", facts{runID: "x", config: map[string]string{"appendonly": "yes", "appendfsync": "always", "no-appendfsync-on-rewrite": "yes"}}, "note persistence"},
		{"no marker", facts{runID: "x", durable: true, unwritable: redis.Error("NOPERM")}, "warning marker"},
		{"memory full", facts{
			runID: "x", durable: true, unwritable: errFull, denied: map[string]error{"SET": errFull, "PTTL": redis.Error("NOPERM")},
			info: map[string]string{"maxmemory": "1000", "used_memory": "1000"},
		}, "error memory, warning permission"},
		{"memory of another", facts{runID: "x", durable: true, marker: "active abc y 1 60000 z"}, "warning marker"},
		{"its own memory", facts{runID: "x", durable: true, marker: "active abc x 1 60000 z"}, ""},
		{"memory of whoever", facts{runID: "x", durable: true, marker: "active abc - 1 60000 -"}, ""},
		{"new", facts{runID: "x", durable: true, marker: "new until 1 abc x 1 60000 z", barred: pool.ErrQuarantined}, "error quarantine"},
		{"no config", facts{runID: "x", denied: map[string]error{"CONFIG GET": redis.Error("NOPERM")}}, "note permission"},
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
		assert.Equal(t, c.want, strings.Join(got, ", "), c.name)
	}
	for n, want := range map[int]trouble.Severity{1: trouble.Warning, 2: trouble.Note, 4: trouble.Note} {
		assert.Equal(t, want, checkNumber(n)[0].Severity, "%d masters", n)
	}
	assert.Empty(t, append(checkNumber(3), checkNumber(5)...))
}

func sample() *diagnosis {
	persistence := finding{trouble.Note, "persistence", trouble.NoPersistence, "no persistence: appendonly is no, and save is empty", "a restart forgets all locks", "set this", []string{"CONFIG SET appendonly yes"}}
	away := finding{trouble.Error, "unreachable", trouble.Refused, "it does not answer: connection refused", "a master that does not answer has no vote", "check that it runs", nil}
	slow := finding{trouble.Warning, "slow", trouble.Slow, "a round trip takes 0.5s; a lock with a TTL of 10s waits 500ms for a master, which is a long time", "late votes do not count", "move it closer", nil}
	return &diagnosis{
		Safe: true, Quorum: 2, Sound: 2, Members: 3, Findings: []finding{},
		Nodes: []nodeDiagnosis{
			{
				Endpoint: "redis://a:6379", Reachable: true, Product: "redis", Version: "8.0.2", Role: "master", UptimeSeconds: 273_600,
				RoundTripMicros: 412, OffsetMillis: 3, Findings: []finding{persistence},
			},
			{
				Endpoint: "redis://b:6379", Reachable: true, Product: "valkey", Version: "9.1.0", Role: "slave", UptimeSeconds: 3661,
				RoundTripMicros: 512_345, OffsetMillis: -12, Findings: []finding{slow, persistence},
			},
			{Endpoint: "redis://c:6379", Findings: []finding{away}},
		},
	}
}

func drawn(d *diagnosis, width int, color bool) string {
	look := terminal.Look{Width: func() int { return width }, Color: color}
	return look.Text(d.text(look))
}

func TestDiagnosisBeginsWithAnOverviewAndTellsWhatIsSharedOnce(t *testing.T) {
	const want = `
A quorum is safe: 2 of 3 masters without an error, 2 are needed.

MASTER          FINDINGS              PING  CLOCK  SERVER               UP
redis://a:6379  1 note               412µs   +3ms  Redis 8.0.2          3d4h
redis://b:6379  1 warning, 1 note  512.3ms  -12ms  Valkey 9.1.0, slave  1h1m
redis://c:6379  1 error                  -      -  -                    -

redis://c:6379
  error: it does not answer: connection refused
    why: a master that does not answer has no vote
    do:  check that it runs

redis://b:6379
  warning: a round trip takes 0.5s; a lock with a TTL of 10s waits 500ms for a
           master, which is a long time
    why: late votes do not count
    do:  move it closer

redis://a:6379, redis://b:6379
  note: no persistence: appendonly is no, and save is empty
    why: a restart forgets all locks
    do:  set this
         CONFIG SET appendonly yes
`
	d := sample()
	assert.Equal(t, strings.TrimPrefix(want, "\n"), drawn(d, 80, false))
	for width := 50; width < 120; width++ {
		for line := range strings.Lines(drawn(d, width, false)) {
			assert.LessOrEqual(t, terminal.Columns(strings.TrimRight(line, "\n")), width, line)
		}
	}
	d.Nodes[2].Findings = d.Nodes[0].Findings
	assert.Contains(t, drawn(d, 80, false), "\n\nEach of the masters\n  note: no persistence")
	for _, want := range []string{"\x1b[31merror:\x1b[0m", "\x1b[33mwarning:\x1b[0m", "\x1b[31m1 error  ", "\x1b[32mA\x1b[0m \x1b[32mquorum"} {
		assert.Contains(t, drawn(sample(), 80, true), want)
	}
}

func TestAMonitorChoosesWhatFails(t *testing.T) {
	for _, c := range []struct {
		d                            diagnosis
		onQuorum, onError, onWarning bool
	}{
		{diagnosis{Safe: true}, false, false, false},
		{diagnosis{Safe: true, Warnings: 1}, false, false, true},
		{diagnosis{Safe: true, Errors: 1}, false, true, true},
		{diagnosis{Errors: 2}, true, true, true},
	} {
		assert.Equal(t, c.onQuorum, c.d.fails(failOnQuorum), "%+v", c.d)
		assert.Equal(t, c.onError, c.d.fails(failOnError), "%+v", c.d)
		assert.Equal(t, c.onWarning, c.d.fails(failOnWarning), "%+v", c.d)
	}
}

// Each word of a line to be pasted is quoted once.
func TestRightsForKeysWithQuotesCanBePasted(t *testing.T) {
	refusal := redis.Error("NOPERM this user has no permissions to access one of the keys used as arguments")
	f := facts{runID: "x", user: "me", pattern: `a?"b":*`, derived: refusal}
	found := f.check(limits{ttl: time.Second, maxTTL: time.Minute})
	at := slices.IndexFunc(found, func(f finding) bool { return f.Kind == trouble.Derived })
	require.GreaterOrEqual(t, at, 0)
	for _, line := range []string{f.rights(), found[at].Commands[0]} {
		assert.Contains(t, line, `ACL SETUSER me "~redquorum:adopt:a?\"b\":*" "~redquorum:fence:`)
	}
}

// The user may have no other keys.
func TestALockThatCuresHasThePrefixOfTheOthers(t *testing.T) {
	for prefix, want := range map[string]string{
		"": "--name doctor --ttl", "app:": "--name doctor --key-prefix 'app:' --ttl", "it's {a b}$x": `--name doctor --key-prefix 'it'\''s {a b}$x' --ttl`,
	} {
		f := facts{runID: "x", barred: pipeline.ErrTorn}
		found := f.check(limits{ttl: time.Second, maxTTL: time.Minute, prefix: prefix})
		require.NotEmpty(t, found)
		require.NotEmpty(t, found[0].Commands)
		assert.Contains(t, found[0].Commands[0], want)
	}
}

func TestUptimeIsShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		40 * time.Second: "40s", 724 * time.Second: "12m4s", 18720 * time.Second: "5h12m", 76 * time.Hour: "3d4h",
	} {
		assert.Equal(t, want, prose.Span(d))
	}
}
