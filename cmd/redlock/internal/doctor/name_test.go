package doctor

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/redlock"
)

// ruleFor returns the documented rule of a client with a prefix, for exactly one name instead.
func ruleFor(t *testing.T, name string) (rights []any) {
	t.Helper()
	text, err := os.ReadFile("../../../../docs/operations.md")
	require.NoError(t, err)
	_, rule, found := strings.Cut(string(text), "```\nACL SETUSER app on >password ")
	require.True(t, found, "the rule has gone from docs/operations.md")
	rule, _, _ = strings.Cut(rule, "```")
	for word := range strings.FieldsSeq(strings.ReplaceAll(rule, "app:*", name)) {
		rights = append(rights, word)
	}
	return append(rights, "~redquorum:terms:"+name, "~"+name+"#*")
}

// A user with rights for one prefix passes without a name: nothing of the prefix is tried.
func TestDoctorTriesTheKeyOfTheNamedLock(t *testing.T) {
	t.Parallel()
	url := startFor(t, "~app:*", "~redquorum:*", "&*", "+@all")
	status, d, text := consult(t, []string{url})
	assert.Zero(t, status, text)
	assert.Empty(t, d.Nodes[0].Findings)
	status, d, text = consult(t, []string{url}, "--name", "x")
	assert.Equal(t, cli.ExitFailed, status, text)
	requireFinding(t, &d, text, 0, severe, "name", nil, `the key "x" is refused: NOPERM`)
	assert.Contains(t, d.Nodes[0].Findings[0].Do, "ACL SETUSER … ~x ")
	status, d, text = consult(t, []string{url}, "--name", "x", "--key-prefix", "app:")
	assert.Zero(t, status, text)
	assert.Empty(t, d.Nodes[0].Findings)
}

// Whoever may use one lock only needs no rights for a trial key.
func TestTheRightsForOneNameAreEnough(t *testing.T) {
	t.Parallel()
	url := startFor(t, ruleFor(t, "night[ly")...)
	status, d, text := consult(t, []string{url}, "--name", "night[ly")
	assert.Equal(t, cli.ExitFailed, status, "as a pattern it is another name: %s", text)
	assert.Contains(t, d.Nodes[0].Findings[0].Do, `~night\[ly `)

	url = startFor(t, ruleFor(t, "nightly")...)
	status, d, text = consult(t, []string{url}, "--name", "nightly")
	assert.Zero(t, status, text)
	assert.Empty(t, d.Nodes[0].Findings, text)
	_, d, _ = consult(t, []string{url})
	assert.Contains(t, checksOf(d.Nodes[0].Findings), "permission", "without the name, nothing can be tried")

	for _, c := range []struct{ without, check, says string }{
		{"+set", "permission", "SET is refused: NOPERM"},
		{"+del", "permission", "DEL is refused: NOPERM"},
		{"+pttl", "permission", "PTTL is refused: NOPERM"},
		{"+pexpire", "permission", "PEXPIRE is refused: NOPERM"},
		{"+mget", "semaphores", "MGET is refused: ERR"},
		{"~nightly#*", "semaphores", "nightly#* is refused: ERR"},
		{"~redquorum:fence:nightly", "fencing", "redquorum:fence:nightly is refused: ERR"},
		{"~redquorum:terms:nightly", "elections", "redquorum:terms:nightly is refused: ERR"},
	} {
		rights := slices.DeleteFunc(ruleFor(t, "nightly"), func(right any) bool { return right == c.without })
		_, d, text := consult(t, []string{startFor(t, rights...)}, "--name", "nightly")
		i := slices.Index(checksOf(d.Nodes[0].Findings), c.check)
		require.GreaterOrEqual(t, i, 0, "without %s: %s", c.without, text)
		assert.Contains(t, d.Nodes[0].Findings[i].What, c.says)
	}
}

// The lock may be held, and waited for, while its keys are tried.
func TestTryingANameChangesNothing(t *testing.T) {
	t.Parallel()
	servers := redistest.Start(t, 3, durable)
	clitest.Admit(t, clitest.URLs(servers)...)
	l, err := redlock.New(clitest.URLs(servers), redlock.WithFencing(), redlock.WithTTL(time.Minute), redlock.WithNodeTimeout(10*time.Second))
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	lock, err := l.TryLock(t.Context(), "x")
	require.NoError(t, err)
	s, err := l.Semaphore("x", 2)
	require.NoError(t, err)
	permit, err := s.TryAcquire(t.Context())
	require.NoError(t, err)
	for i, server := range servers { // what a waiter, readers and leaders leave
		for _, command := range [][]any{
			{"ZADD", "redquorum:wait:x", 1, "a"},
			{"SET", "redquorum:waits:x", i},
			{"ZADD", "redquorum:readers:x", 1, "a"},
			{"SET", "redquorum:intent:x", "b"},
			{"ZADD", "redquorum:terms:x", 1, "a"},
			{"ZADD", "redquorum:permit:wait:x", 1, "a"},
		} {
			_, err := server.Do(command[0].(string), command[1:]...)
			require.NoError(t, err)
		}
	}
	before := dump(t, servers)
	status, d, text := consult(t, clitest.URLs(servers), "--name", "x")
	assert.Zero(t, status, text)
	for _, n := range d.Nodes {
		assert.Empty(t, n.Findings)
	}
	assert.Equal(t, before, dump(t, servers))
	require.NoError(t, lock.Verify(t.Context()))
	require.NoError(t, permit.Verify(t.Context()))
}

// dump returns the keys of all servers, with their values and whether they expire.
func dump(t *testing.T, servers []*redistest.Server) map[string]string {
	t.Helper()
	all := map[string]string{}
	for i, s := range servers {
		keys, err := redis.Strings(s.Do("KEYS", "*"))
		require.NoError(t, err)
		for _, key := range keys {
			value, err := redis.String(s.Do("DUMP", key))
			require.NoError(t, err)
			left, err := redis.Int64(s.Do("PTTL", key))
			require.NoError(t, err)
			expires := "expires"
			if left < 0 {
				expires = "stays"
			}
			all[string(rune('0'+i))+" "+key] = expires + " " + value
		}
	}
	return all
}

func TestANameMayBeTheKeyOfSomethingElse(t *testing.T) {
	t.Parallel()
	server := startMet(t, durable)
	_, err := server.Do("HSET", "p:x", "a", "b")
	require.NoError(t, err)
	status, d, text := consult(t, []string{server.URL()}, "--name", "x", "--key-prefix", "p:")
	assert.Equal(t, cli.ExitFailed, status)
	requireFinding(t, &d, text, 0, severe, "name", nil, `the key "p:x" is no string: it is no lock`)
	assert.NotContains(t, text, "WRONGTYPE")
	for command, unfit := range map[string]bool{"SET": true, "SETEX": false} {
		args := []any{"p:y", 60, "v"}
		if unfit {
			args = []any{"p:y", "v"}
		}
		_, err = server.Do(command, args...)
		require.NoError(t, err)
		status, d, text = consult(t, []string{server.URL()}, "--name", "y", "--key-prefix", "p:")
		if !unfit {
			assert.Zero(t, status, text)
			continue
		}
		assert.Equal(t, cli.ExitFailed, status)
		requireFinding(t, &d, text, 0, severe, "name", nil, `the key "p:y" does not expire: it is no lock`)
		assert.Equal(t, "use another name or --key-prefix", d.Nodes[0].Findings[0].Do)
	}
	for _, c := range []struct{ name, says string }{
		{"redquorum:memory", "reserved"}, {"", "--name is empty"}, {strings.Repeat("x", 5000), "name has 5000 bytes"},
	} {
		status, _, stderr := clitest.Line(clitest.Root(NewCommand()), "doctor", "--nodes", server.URL(), "--name", c.name)
		assert.Equal(t, cli.ExitUsage, status)
		assert.Contains(t, stderr, c.says)
	}
}

func TestATTLAboveTheLimitNamesTheFlag(t *testing.T) {
	for ttl, says := range map[string]string{"61s": "above the --max-ttl of 1m0s", "999ms": "below 1s"} {
		status, _, stderr := clitest.Line(clitest.Root(NewCommand()), "doctor", "--nodes", "127.0.0.1:1", "--ttl", ttl)
		assert.Equal(t, cli.ExitUsage, status)
		assert.Contains(t, stderr, says)
	}
}
