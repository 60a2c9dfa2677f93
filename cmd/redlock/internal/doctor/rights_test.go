package doctor

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/internal/proof/docs"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/internal/trouble"
)

// guarded is a durable master that votes, with users.
type guarded struct {
	*redistest.Server
	t     *testing.T
	users atomic.Int32
}

func startGuarded(t *testing.T) *guarded {
	t.Helper()
	servers, _ := startMet(t, 1, durable)
	return &guarded{Server: servers[0], t: t}
}

// userWith returns the endpoint of a new user with these rights.
func (g *guarded) userWith(rights ...string) string {
	g.t.Helper()
	name := fmt.Sprint("user", g.users.Add(1))
	g.allow(name, append([]string{"on", ">poverty"}, rights...)...)
	return "redis://" + name + ":poverty@" + g.Addr()
}

// allow gives a user more rights.
func (g *guarded) allow(name string, rights ...string) {
	g.t.Helper()
	_, err := g.Do("ACL", redis.Args{"SETUSER", name}.AddFlat(rights)...)
	require.NoError(g.t, err)
}

// documented returns the rule of docs/operations.md for a user.
func documented(t *testing.T, user string) []string {
	t.Helper()
	rule := docs.ACLRule(t, "../../../..", user)
	require.Equal(t, []string{"on", ">password"}, rule[:2])
	return rule[2:]
}

// ruleFor returns the documented rule of a client with a prefix, for exactly one name instead.
func ruleFor(t *testing.T, name string) (rights []string) {
	t.Helper()
	for _, right := range documented(t, "app") {
		if right == "~redquorum:adopt:app:*" {
			right += ":*"
		}
		rights = append(rights, strings.ReplaceAll(right, "app:*", name))
	}
	return append(rights, "~redquorum:terms:"+name, "~"+name+"#*")
}

// The rule in docs/operations.md grants every right that a lock needs.
func TestDocumentedRightsAreSound(t *testing.T) {
	t.Parallel()
	_, d, text := consult(t, []string{startGuarded(t).userWith(documented(t, "locks")...)})
	assert.Empty(t, d.Nodes[0].Findings, text)
}

func TestDoctorNamesTheRightsThatAreMissing(t *testing.T) {
	t.Parallel()
	server := startGuarded(t)
	for _, c := range []struct {
		rights string
		s      trouble.Severity
		check  string
		says   string
		also   []string // checks of other findings
	}{
		{"~* &* +@all -eval", trouble.Note, "permission", "EVAL is refused: NOPERM", nil},
		{"~* &* +@all -pttl", trouble.Warning, "permission", "PTTL is refused: NOPERM", nil}, // enough for other libraries
		{"~* &* +@all -pexpire", trouble.Error, "permission", "PEXPIRE is refused: NOPERM", nil},
		// Without the marker, it is judged by its uptime.
		{"~* &* +@all -get", trouble.Error, "permission", "GET is refused: NOPERM", []string{"quarantine", "marker"}},
		{"~redquorum:[a-l]* ~redquorum:[n-z]* &* +@all", trouble.Warning, "marker", "reading redquorum:memory is refused: NOPERM", []string{"quarantine"}},
		{"~* &* +@all -time", trouble.Warning, "marker", "writing redquorum:memory is refused", []string{"permission"}},
		{"~redquorum:doctor:* ~redquorum:[a-ln-z]* ~redquorum:memory &* +@all", trouble.Warning, "members", "using redquorum:members is refused: ", nil},
		{"~* &* +@all -evalsha", trouble.Error, "scripts", "scripts cannot be run: EVALSHA: NOPERM", nil},
		{"~redquorum:doctor:* ~redquorum:mem* &* +@all", trouble.Warning, "derived", "a key that a script derives from its own is refused", nil},
		{"~* &* +@all -info", trouble.Warning, "unidentified", "NOPERM", nil},
		{"~* resetchannels +@all -subscribe", trouble.Note, "permission", "PUBLISH is refused: NOPERM", []string{"permission"}},
		{"~* &* +@all -mget", trouble.Note, "semaphores", "no semaphores: MGET is refused: ERR", []string{"any"}},
		{"~redquorum:[a-oq-z]* ~redquorum:permit:* &* +@all", trouble.Note, "semaphores", "no semaphores: redquorum:permits:* is refused: ERR", nil},
		{"~redquorum:[a-qs-z]* &* +@all -zremrangebyscore", trouble.Note, "shared", "no shared locks: ZREMRANGEBYSCORE is refused: ERR", nil},
		{"~redquorum:[a-eg-z]* &* +@all", trouble.Note, "fencing", "no fencing tokens: redquorum:fence:* is refused: ERR", nil},
		{"~redquorum:[a-su-z]* &* +@all", trouble.Note, "elections", "no elections: redquorum:terms:* is refused: ERR", nil},
		{"~redquorum:[a-km-z]* &* +@all", trouble.Note, "log", "no line in the log: redquorum:log is refused: ERR", []string{"history"}},
		{"~redquorum:[a-su-z]* %R~redquorum:terms:* &* +@all", trouble.Note, "elections", "no elections: redquorum:terms:* is refused: ERR", nil},
	} {
		t.Run(c.rights, func(t *testing.T) {
			t.Parallel()
			// The uptime is below that, however busy the machine is.
			_, d, text := consult(t, []string{server.userWith(strings.Fields(c.rights)...)}, "--max-ttl", "1h")
			requireFinding(t, &d, text, 0, c.s, c.check, c.also, c.says)
			assert.NotContains(t, text, "poverty")
		})
	}
}

// What doctor proposes is what makes the finding go away, also for a prefix that is a pattern.
func TestTheProposedRightsAreEnough(t *testing.T) {
	t.Parallel()
	const prefix = `a[p]p*\?:`
	quoted := strings.NewReplacer(`\`, `\\`, `[`, `\[`, `*`, `\*`, `?`, `\?`).Replace(prefix)
	server := startGuarded(t)
	urls := []string{server.userWith("~"+quoted+"*", "~redquorum:waits:"+quoted+"*", "~redquorum:mem*", "&*",
		"+@all", "-mget", "-zadd", "-zcard", "-pexpireat")}
	_, d, text := consult(t, urls, "--key-prefix", prefix)
	requireFinding(t, &d, text, 0, trouble.Note, "elections", []string{"any", "adopt", "fencing", "history", "log", "others", "semaphores", "shared", "waiting"})
	assert.Contains(t, text, "\n"+d.Nodes[0].Rights+"\n", "one line, to be pasted")
	rules, found := strings.CutPrefix(d.Nodes[0].Rights, "ACL SETUSER user1 ")
	require.True(t, found, d.Nodes[0].Rights)
	server.allow("user1", strings.Fields(rules)...)
	_, d, text = consult(t, urls, "--key-prefix", prefix)
	assert.Empty(t, d.Nodes[0].Findings, text)
	_, d, _ = consult(t, urls, "--key-prefix", "app:")
	assert.NotEmpty(t, d.Nodes[0].Findings, "the rights are those of that prefix only")
}

// Of keys with white space, too, and to somebody who may touch none.
func TestTheProposedRightsAreEnoughAtOnce(t *testing.T) {
	t.Parallel()
	const prefix = "a b\t*:"
	server := startGuarded(t)
	urls := []string{server.userWith("&*", "+@all")}
	_, d, text := consult(t, urls, "--key-prefix", prefix)
	assert.NotEmpty(t, d.Nodes[0].Findings)
	rules, found := strings.CutPrefix(d.Nodes[0].Rights, "ACL SETUSER user1 ")
	require.True(t, found, text)
	server.allow("user1", strings.Fields(rules)...)
	_, d, text = consult(t, urls, "--key-prefix", prefix)
	assert.Empty(t, d.Nodes[0].Findings, text)
}

// What is pasted allows what was refused: keys or commands, and not the one for the other.
func TestTheProposedRightsAreOfWhatWasRefused(t *testing.T) {
	t.Parallel()
	server := startGuarded(t)
	for rights, want := range map[string]struct{ check, what, rights string }{
		"~app:* ~redquorum:[a-ce-z]* &* +@all":    {"permission", "a key like * is refused: NOPERM", "~*"},
		"~* &* +@all -eval -evalsha -script|load": {"scripts", "scripts cannot be run: ", "+eval +evalsha +script|load"},
	} {
		urls := []string{server.userWith(strings.Fields(rights)...)}
		_, d, text := consult(t, urls)
		requireFinding(t, &d, text, 0, trouble.Error, want.check, nil, want.what)
		user, rules, found := strings.Cut(strings.TrimPrefix(d.Nodes[0].Rights, "ACL SETUSER "), " ")
		require.True(t, found, text)
		assert.Subset(t, strings.Fields(rules), strings.Fields(want.rights))
		assert.Equal(t, strings.Contains(want.rights, "+"), strings.Contains(rules, "+"), rules)
		server.allow(user, strings.Fields(rules)...)
		_, d, text = consult(t, urls)
		assert.Empty(t, d.Nodes[0].Findings, text)
	}
}

// A user with rights for one prefix passes without a name: nothing of the prefix is tried.
func TestDoctorTriesTheKeyOfTheNamedLock(t *testing.T) {
	t.Parallel()
	server := startGuarded(t)
	urls := []string{server.userWith("~app:*", "~redquorum:*", "&*", "+@all")}
	for _, args := range [][]string{nil, {"--name", "x", "--key-prefix", "app:"}} {
		status, d, text := consult(t, urls, args...)
		assert.Zero(t, status, text)
		assert.Empty(t, d.Nodes[0].Findings)
	}
	status, d, text := consult(t, urls, "--name", "x")
	assert.Equal(t, cli.ExitFailed, status, text)
	requireFinding(t, &d, text, 0, trouble.Error, "name", nil, `the key "x" is refused: NOPERM`)
	assert.Equal(t, []string{"ACL SETUSER user1 ~x"}, d.Nodes[0].Findings[0].Commands)

	for _, command := range [][]any{{"HSET", "p:hash", "a", "b"}, {"SET", "p:lasting", "v"}, {"SETEX", "p:lock", 60, "v"}} {
		_, err := server.Do(command[0].(string), command[1:]...)
		require.NoError(t, err)
	}
	for name, is := range map[string]string{"hash": "is no string", "lasting": "does not expire"} {
		status, d, text = consult(t, []string{server.URL()}, "--name", name, "--key-prefix", "p:")
		assert.Equal(t, cli.ExitFailed, status)
		requireFinding(t, &d, text, 0, trouble.Error, "name", nil, fmt.Sprintf("the key %q %s: it is no lock", "p:"+name, is))
		assert.Equal(t, "use another name or --key-prefix", d.Nodes[0].Findings[0].Do)
		assert.NotContains(t, text, "WRONGTYPE")
	}
	status, _, text = consult(t, []string{server.URL()}, "--name", "lock", "--key-prefix", "p:")
	assert.Zero(t, status, text)
}

// Whoever may use one lock only needs no rights for a trial key.
func TestTheRightsForOneNameAreEnough(t *testing.T) {
	t.Parallel()
	server := startGuarded(t)
	status, d, text := consult(t, []string{server.userWith(ruleFor(t, "night[ly")...)}, "--name", "night[ly")
	assert.Equal(t, cli.ExitFailed, status, "as a pattern it is another name: %s", text)
	assert.Equal(t, []string{`ACL SETUSER user1 ~night\[ly`}, d.Nodes[0].Findings[0].Commands)

	urls := []string{server.userWith(ruleFor(t, "nightly")...)}
	status, d, text = consult(t, urls, "--name", "nightly")
	assert.Zero(t, status, text)
	assert.Empty(t, d.Nodes[0].Findings, text)
	_, d, _ = consult(t, urls)
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
		rights := slices.DeleteFunc(ruleFor(t, "nightly"), func(right string) bool { return right == c.without })
		_, d, text := consult(t, []string{server.userWith(rights...)}, "--name", "nightly")
		i := slices.Index(checksOf(d.Nodes[0].Findings), c.check)
		require.GreaterOrEqual(t, i, 0, "without %s: %s", c.without, text)
		assert.Contains(t, d.Nodes[0].Findings[i].What, c.says)
	}
}

// The lock may be held, and waited for, while its keys are tried.
func TestTryingANameChangesNothing(t *testing.T) {
	t.Parallel()
	server := startGuarded(t)
	for _, command := range []string{ // what a holder leaves, a waiter, readers and leaders
		"SETEX x 3600 held", "SETEX x#1 3600 held", "SET redquorum:fence:x 7", "SET redquorum:permits:x 2",
		"ZADD redquorum:wait:x 1 a", "SET redquorum:waits:x 1", "ZADD redquorum:permit:wait:x 1 a",
		"ZADD redquorum:readers:x 1 a", "SET redquorum:intent:x b", "ZADD redquorum:terms:x 1 a",
	} {
		words := strings.Fields(command)
		_, err := server.Do(words[0], redis.Args{}.AddFlat(words[1:])...)
		require.NoError(t, err)
	}
	before := dump(t, server.Server)
	require.Len(t, before, 10)
	status, d, text := consult(t, []string{server.URL()}, "--name", "x")
	assert.Zero(t, status, text)
	assert.Empty(t, d.Nodes[0].Findings)
	assert.Equal(t, before, dump(t, server.Server))
}

// dump returns the keys of a server, with their values and whether they expire.
func dump(t *testing.T, s *redistest.Server) map[string]string {
	t.Helper()
	all := map[string]string{}
	keys, err := s.Keys()
	require.NoError(t, err)
	for _, key := range keys {
		value, err := redis.String(s.Do("DUMP", key))
		require.NoError(t, err)
		left, err := redis.Int64(s.Do("PTTL", key))
		require.NoError(t, err)
		all[key] = fmt.Sprint("expires: ", left >= 0, " ", value)
	}
	return all
}
