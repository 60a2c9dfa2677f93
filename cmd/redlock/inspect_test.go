package main

import (
	"encoding/json"
	"errors"
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

func TestInspectTellsWhoHoldsALock(t *testing.T) {
	t.Parallel()
	servers := redistest.Start(t, 3)
	clitest.Admit(t, clitest.URLs(servers)...)
	nodes := strings.Join(clitest.URLs(servers), ",")
	inspect := func(args ...string) (int, inspection, string) {
		t.Helper()
		args = append([]string{"inspect", "--nodes", nodes}, args...)
		status, text, _ := line(args...)
		var i inspection
		_, encoded, _ := line(append(args, "--json")...)
		require.NoError(t, json.Unmarshal([]byte(encoded), &i), encoded)
		return status, i, text
	}

	status, i, text := inspect("x")
	assert.Equal(t, 0, status)
	assert.Equal(t, "free", i.Verdict)
	assert.Contains(t, text, `"x" is free.`)

	l, err := redlock.New(clitest.URLs(servers), redlock.WithOwner("me\x1b[2J"), redlock.WithKeyPrefix("p:"))
	require.NoError(t, err)
	defer l.Close()
	lock, err := l.Lock(t.Context(), "x")
	require.NoError(t, err)
	status, i, text = inspect("x", "--key-prefix", "p:")
	assert.Equal(t, 0, status)
	assert.Equal(t, "held", i.Verdict)
	assert.Equal(t, lock.Value(), i.Value)
	assert.Equal(t, "me\x1b[2J", i.Owner)
	assert.Len(t, i.Nodes, 3)
	assert.Positive(t, max(i.Nodes[0].TTLMillis, i.Nodes[1].TTLMillis))
	// The lock may not have waited for one of them.
	assert.Regexp(t, `"x" is held by me\\x1b\[2J: [23] of 3 masters have its value\.`, text)
	assert.NotContains(t, text, lock.Value()[:26], "with the value, anyone could release the lock")
	assert.NotContains(t, text, "\x1b")

	for i, value := range []string{"one|a", "two"} {
		_, err := servers[i].Do("SET", "y", value)
		require.NoError(t, err)
	}
	status, i, text = inspect("y")
	assert.Equal(t, 0, status)
	assert.Equal(t, "split", i.Verdict)
	assert.Equal(t, int64(-1), i.Nodes[0].TTLMillis)
	assert.Contains(t, text, "for ever")
	assert.Regexp(t, `^MASTER +VALUE +OWNER +TTL\n`, text, "the others would be empty")

	require.NoError(t, servers[0].Kill())
	require.NoError(t, servers[1].Kill())
	status, i, text = inspect("y")
	assert.Equal(t, cli.ExitNoQuorum, status)
	assert.Equal(t, "unknown", i.Verdict)
	assert.Contains(t, i.Nodes[0].Error, "refused")
	assert.Contains(t, text, "unknown: fewer than 2 of 3 masters answered")
	assert.Regexp(t, `^MASTER +VALUE +OWNER +TTL +ERROR\n`, text)
}

func TestInspectTellsWhyNewMastersDoNotVote(t *testing.T) {
	t.Parallel()
	servers := redistest.Start(t, 3)
	status, text, _ := line("inspect", "--nodes", strings.Join(clitest.URLs(servers), ","), "x")
	assert.Equal(t, cli.ExitNoQuorum, status)
	assert.Equal(t, 3, strings.Count(text, "quarantined for another "), text)
	for _, s := range servers {
		assert.Regexp(t, "^new until ", clitest.Marker(t, s), "it makes none vote")
	}
}

func TestUnlockDeletesWithForceOnly(t *testing.T) {
	t.Parallel()
	servers := redistest.Start(t, 3)
	nodes := strings.Join(clitest.URLs(servers), ",")
	l, err := redlock.New(clitest.URLs(servers), redlock.WithOwner("me"))
	require.NoError(t, err)
	defer l.Close()
	lock, err := l.Lock(t.Context(), "x")
	require.NoError(t, err)

	status, stdout, stderr := line("unlock", "--nodes", nodes, "x")
	assert.Equal(t, cli.ExitUsage, status)
	assert.Empty(t, stdout)
	assert.Contains(t, stderr, "its holder may be at work")
	require.NoError(t, lock.Verify(t.Context()), "nothing was done")

	status, stdout, stderr = line("unlock", "--nodes", nodes, "x", "--force")
	assert.Equal(t, 0, status, stderr)
	assert.Contains(t, stdout, `"x" was held by me: `)
	assert.Contains(t, stdout, "Released")
	require.ErrorIs(t, lock.Verify(t.Context()), redlock.ErrLost)

	status, stdout, stderr = line("unlock", "--nodes", nodes, "x", "--force")
	assert.Zero(t, status, stderr)
	assert.Contains(t, stdout, "\"x\" is free.\nNothing to release.\n")
	_, err = servers[0].Do("SET", "x", "remnant", "PX", 60_000)
	require.NoError(t, err)
	_, stdout, _ = line("unlock", "--nodes", nodes, "x", "--force")
	assert.Contains(t, stdout, "\"x\" is free.\nNobody held it. What was left of it is deleted.\n")

	require.NoError(t, servers[0].Kill())
	require.NoError(t, servers[1].Kill())
	status, stdout, stderr = line("unlock", "--nodes", nodes, "x", "--force")
	assert.Equal(t, cli.ExitNoQuorum, status)
	assert.NotContains(t, stdout, "Released")
	assert.Contains(t, stderr, "no quorum")
}

// What does not expire, or is no string, is somebody's data.
func TestUnlockDeletesNoKeyThatCanBeNoLock(t *testing.T) {
	t.Parallel()
	servers := redistest.Start(t, 3)
	nodes := strings.Join(clitest.URLs(servers), ",")
	clitest.Admit(t, clitest.URLs(servers)...)
	set := func(servers []*redistest.Server, command string, args ...any) {
		for _, s := range servers {
			_, err := s.Do(command, args...)
			require.NoError(t, err)
		}
	}
	set(servers[:2], "SET", "p:data", "v")
	set(servers, "RPUSH", "p:list", "v")
	set(servers[:1], "SET", "p:both", "v")
	set(servers[1:], "SET", "p:both", "v", "PX", 60_000)
	for name, why := range map[string]string{
		"data": `redlock: "p:data" does not expire: it is no lock of ours. If it is yours, delete it with DEL`,
		"list": `redlock: "p:list" is no string: it is no lock of ours. If it is yours, delete it with DEL`,
		"both": `redlock: "p:both" does not expire on ` + servers[0].URL() + `: it is no lock of ours. If it is yours, delete it with DEL`,
	} {
		status, stdout, stderr := line("unlock", "--nodes", nodes, "--key-prefix", "p:", name, "--force")
		assert.Equal(t, cli.ExitFailed, status, stderr)
		assert.Empty(t, stdout)
		assert.Equal(t, why+"\n", stderr)
		kept, err := redis.Int(servers[0].Do("EXISTS", "p:"+name))
		require.NoError(t, err)
		assert.Equal(t, 1, kept, name)
	}
	status, stdout, stderr := line("inspect", "--nodes", nodes, "--key-prefix", "p:", "list")
	assert.Equal(t, cli.ExitMisnamed, status)
	assert.Empty(t, stderr, "it was said")
	assert.Contains(t, stdout, "the key \"p:list\" is no string: it is no lock; use another name or --key-prefix.\n")
	assert.NotContains(t, stdout, "WRONGTYPE")
	assert.NotContains(t, stdout, "script")
}

func TestInspectionOfAStatus(t *testing.T) {
	failed := errors.New("away")
	for _, c := range []struct {
		status redlock.Status
		want   string
	}{
		{redlock.Status{Free: true, Quorum: 1, Nodes: make([]redlock.NodeStatus, 1)}, "free"},
		{redlock.Status{Value: "v", Quorum: 1, Nodes: []redlock.NodeStatus{{Value: "v", TTL: time.Second}}}, "held"},
		{redlock.Status{Quorum: 2, Nodes: []redlock.NodeStatus{{Value: "v"}, {Value: "w"}, {Err: failed}}}, "split"},
		{redlock.Status{Quorum: 2, Nodes: []redlock.NodeStatus{{Value: "v"}, {Err: failed}, {Err: failed}}}, "unknown"},
	} {
		if i := newInspection(&c.status); i.Verdict != c.want {
			t.Errorf("%+v: got %q, want %q", c.status, i.Verdict, c.want)
		}
	}
	for value, want := range map[string]string{"": "", "short": "short", "12345678": "12345678", "123456789": "12345678…", "ab|owner": "ab", "\n": `\n`} {
		if got := shortened(value); got != want {
			t.Errorf("%q: got %q, want %q", value, got, want)
		}
	}
}
