package members

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
	"github.com/redquorum/redquorum/cmd/redlock/internal/terminal"
	"github.com/redquorum/redquorum/internal/prose"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

func line(urls []string, args ...string) (status int, stdout, stderr string) {
	return clitest.Line(clitest.Root(NewCommand()), append(append([]string{"members"}, args...), "--nodes", strings.Join(urls, ","))...)
}

// sample is a cluster of three, of which one is down.
func sample() *admin.Membership {
	return &admin.Membership{
		Cluster: "CLUSTER", Version: 2, MaxTTL: time.Minute, Next: 42 * time.Second,
		Members: []admin.Member{
			{ID: "a1", Endpoint: "redis://a:6379", Listed: true, Up: true, Voting: true, Version: 2},
			{ID: "b1", Endpoint: "redis://b:6379", Up: true, Voting: true, Version: 2},
			{ID: "c1", Endpoint: "redis://c:6379", Listed: true, Err: pool.ErrTimeout},
		},
	}
}

// A member that votes is replaced by adding first, and another one by removing it first. What was
// done before is not done again.
func TestStepsOfAChange(t *testing.T) {
	fresh := sample()
	fresh.Version = 1
	for _, c := range []struct {
		m    *admin.Membership
		args string
		want string // the steps, or the error
	}{
		{sample(), "add redis://user:secret@d", "add redis://d:6379"},
		{sample(), "add b:6379", ""},
		{sample(), "add redis://:secret@d:x", "the port is not"},
		{sample(), "remove c1", "remove redis://c:6379 (c1)"},
		{sample(), "remove c", "not a member of the cluster: c; the members are a1 (redis://a:6379), "},
		{sample(), "remove c:6379", "remove redis://c:6379 (c1)"},
		{sample(), "remove redis://:secret@d", "not a member of the cluster: this endpoint; "},
		{sample(), "replace b1 d:6379", "add redis://d:6379, remove redis://b:6379 (b1)"},
		{sample(), "replace c1 d:6379", "remove redis://c:6379 (c1), add redis://d:6379"},
		{sample(), "replace c1 b:6379", "remove redis://c:6379 (c1)"},
		{sample(), "replace c1 c:6379", ""},
		{sample(), "replace gone d:6379", "add redis://d:6379"},
		{sample(), "replace gone b:6379", ""},
		{fresh, "replace gone d:6379", "not a member"},
		{sample(), "max-ttl 1m", ""},
		{sample(), "max-ttl 2m", "set MaxTTL to 2m0s, from 1m0s"},
		{sample(), "max-ttl 25h", "25h0m0s is not between 10ms and 24h"},
		{sample(), "max-ttl 5", "with a unit"},
	} {
		words := strings.Fields(c.args)
		for i := range changes {
			if !strings.HasPrefix(changes[i].use, words[0]+" ") {
				continue
			}
			steps, err := changes[i].plan(c.m, words[1:])
			var does []string
			for _, s := range steps {
				does = append(does, s.does)
			}
			got := strings.Join(does, ", ")
			if err != nil {
				got = err.Error()
			}
			if c.want == "" {
				assert.Empty(t, got, c.args)
			}
			assert.Contains(t, got, c.want, c.args)
			assert.NotContains(t, got, "secret", c.args)
		}
	}
	steps, err := planReplace(sample(), "b1", "d:6379")
	require.NoError(t, err)
	assert.Equal(t, 102*time.Second, least(sample(), steps))
	assert.Contains(t, steps[0].note, "member c1 (redis://c:6379) does not vote")
}

func TestTheTableNamesWhatIsWrongWithTheList(t *testing.T) {
	stats := redlock.Stats{Nodes: []redlock.NodeStats{
		{Stats: pool.Stats{Endpoint: "redis://a:6379", State: pool.Up}, Listed: true},
		{Stats: pool.Stats{Endpoint: "redis://c:6379", State: pool.Down}, Listed: true},
		{Stats: pool.Stats{Endpoint: "redis://x:6379", State: pool.Up}, Listed: true, Barred: redlock.ErrNotMember},
		{Stats: pool.Stats{Endpoint: "redis://y:6379", State: pool.Up}, Listed: true, Barred: redlock.ErrOtherCluster},
		{Stats: pool.Stats{Endpoint: "redis://z:6379", State: pool.Down}, Listed: true},
		{Stats: pool.Stats{Endpoint: "redis://old:6379", State: pool.Down}},
	}}
	const want = `
Cluster CLUSTER, version 2: 3 members, 2 are needed. MaxTTL 1m0s.

ID  ENDPOINT        STATE  VERSION
a1  redis://a:6379  votes  2
b1  redis://b:6379  votes  2
c1  redis://c:6379  down   -

redis://c:6379: pool: no answer in time

Your list differs:
  redis://b:6379 is a member (b1), and missing in the list
  redis://x:6379 is no member
  redis://y:6379 belongs to another cluster
  redis://z:6379 does not answer, and no member has this endpoint

Another change is possible in 42s.
`
	v := viewOf(sample(), &stats)
	var b strings.Builder
	b.WriteString(terminal.Look{}.Text(v.text(terminal.Look{})))
	assert.Equal(t, strings.TrimPrefix(want, "\n"), b.String())
	v.changes, v.dryRun, v.Changes, v.TakesMillis = true, true, []string{"this", "that"}, 102_000
	b.Reset()
	b.WriteString(terminal.Look{}.Text(v.text(terminal.Look{})))
	assert.Contains(t, b.String(), "Would this, then that. It takes 1m42s at least.\n\nCluster")

	var told map[string]any
	b.Reset()
	require.NoError(t, prose.WriteJSON(&b, v))
	require.NoError(t, json.Unmarshal([]byte(b.String()), &told))
	assert.Equal(t, []any{"CLUSTER", 2.0, "1m0s", 2.0, 42_000.0, 102_000.0},
		[]any{told["cluster"], told["version"], told["max_ttl"], told["quorum"], told["next_ms"], told["takes_ms"]})
	assert.Equal(t, map[string]any{
		"id": "c1", "endpoint": "redis://c:6379", "state": "down", "version": 0.0, "listed": true, "error": "pool: no answer in time",
	}, told["members"].([]any)[2])
	assert.Len(t, told["list"], 4)
}

func TestAWaitIsToldWhenItBeginsAndNowAndThen(t *testing.T) {
	var b strings.Builder
	var now clock.Instant
	s := sayer{w: &b, now: func() clock.Instant { return now }}
	for second := range 25 {
		now = clock.Instant(second) * clock.Instant(time.Second)
		waits := "locks"
		if second > 20 {
			waits = "b"
		}
		s.progress(waits, time.Duration(20-min(second, 20))*time.Second)
	}
	assert.Equal(t, `redlock: waiting: locks (another 20s)
redlock: waiting: locks (another 10s)
redlock: waiting: locks
redlock: waiting: b
`, b.String())
}

func TestMistakesAreUsageErrors(t *testing.T) {
	for args, says := range map[string]string{
		"redis://:secret@a": "members takes no arguments but add",
		"add":               "add takes the endpoint of one master",
		"remove":            "remove takes the ID or the endpoint of one member",
		"replace a":         "replace takes",
		"max-ttl 5":         "with a unit",
		"add redis://:x@:y": "the endpoint: ",
	} {
		status, _, stderr := line([]string{"127.0.0.1:1"}, strings.Fields(args)...)
		assert.Equal(t, cli.ExitUsage, status, args)
		assert.Contains(t, stderr, says, args)
		assert.NotContains(t, stderr, "secret", args)
	}
	status, _, stderr := line([]string{"127.0.0.1:1"})
	assert.Equal(t, cli.ExitNoQuorum, status)
	assert.Contains(t, stderr, "connection refused")
}
