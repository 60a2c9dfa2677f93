package scenario_test

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/pool"
)

// defaultUsers are what a server may have as the user with whose rights many servers load a log,
// and what nobody uses: those of the other rows.
var defaultUsers = map[string]string{
	"off":                        "off",
	"off, with all rights":       "off +@all ~* &*",
	"off, with the rights to it": "off resetchannels +@all ~*",
	"off, for writes alone":      "off -@all +@write ~*",
	"off, for some keys":         "off +@all ~app:* &*",
	"on, for a probe":            "on nopass resetkeys resetchannels -@all +ping",
	"on, for some commands":      "on nopass ~* &* -@all +ping +get +set",
	"on, without one command":    "on nopass +@all ~* &* -pexpire",
	"on, without databases":      "on nopass +@all ~* &* -select",
	"on":                         "on nopass +@all ~* &*",
}

// packaged is the default user of packaging.
func packaged(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../../../packaging/secrets")
	require.NoError(t, err)
	_, user, found := strings.Cut(string(text), "\tuser default ")
	require.True(t, found)
	user, _, _ = strings.Cut(user, "\n")
	return user
}

// users are lines of an ACL file, with this default user.
func users(t *testing.T, defaultUser string) redistest.Option {
	t.Helper()
	return redistest.WithUsers(t, "user default "+defaultUser+"\nuser all on >secret +@all ~* &*\n", "all", "secret")
}

// identity is what a new connection finds out about a server.
func identity(t *testing.T, m cluster.Master) pool.Identity {
	t.Helper()
	node, err := pool.NewNode(m.URL())
	require.NoError(t, err)
	defer node.Close()
	var id pool.Identity
	await(t, "it is connected", func() (met bool) {
		id, met = node.Identity()
		return met && node.Stats().State == pool.Up
	})
	return id
}

// A server that may load a part of its log is not called durable, whoever the default user is. With
// the documented rights, each of them loads all.
func TestServersThatLoadAPartOfTheirLogAreNotDurable(t *testing.T) {
	t.Parallel()
	all := maps.Clone(defaultUsers)
	all["of packaging"] = packaged(t)
	for name, user := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := redistest.StartOne(t, users(t, user), redistest.WithArgs(durable...))
			before := identity(t, m)
			do(t, m, "EVAL", `
				redis.call('SELECT', 1)
				redis.call('SET', 'a', 1, 'PX', 100000)
				redis.call('PEXPIRE', 'a', 200000)
				redis.call('ZADD', 'b', 1, 'x')`, 0)
			must(t, m.Restart())
			found, err := redis.Ints(m.Do("EVAL", "redis.call('SELECT', 1) return { redis.call('EXISTS', 'a', 'b'), redis.call('PTTL', 'a') }", 0))
			require.NoError(t, err)
			there, left := found[0], found[1]
			whole := there == 2 && left > 100_000
			t.Logf("%s %s: durable %v, %d of 2 keys, the first for %d ms", before.Product, before.Version, before.Durable, there, left)
			for _, id := range []pool.Identity{before, identity(t, m)} {
				assert.True(t, whole || !id.Durable, "it is called durable, and has lost something")
			}
			if slices.Contains([]string{"on", "off, with all rights", "off, with the rights to it", "of packaging"}, name) {
				assert.True(t, whole && before.Durable)
			}
		})
	}
}

// A log that lost its end is loaded with aof-load-truncated yes, and then the server is not
// durable. With no, it does not start: there is nobody to vote.
func TestServersThatLoadALogWithoutItsEndAreNotDurable(t *testing.T) {
	t.Parallel()
	for _, truncated := range []string{"yes", "no"} {
		dir := t.TempDir()
		m := redistest.StartOne(t, redistest.WithArgs(durable...), redistest.WithArgs("--aof-load-truncated", truncated, "--dir", dir))
		assert.Equal(t, truncated == "no", identity(t, m).Durable)
		do(t, m, "SET", "first", 1)
		do(t, m, "SET", "last", 1)
		must(t, m.Kill())
		logs, err := filepath.Glob(filepath.Join(dir, "appendonlydir", "*.incr.aof"))
		require.NoError(t, err)
		require.Len(t, logs, 1)
		written, err := os.ReadFile(logs[0])
		require.NoError(t, err)
		require.NoError(t, os.Truncate(logs[0], int64(bytes.LastIndex(written, []byte("last")))))
		if truncated == "no" {
			require.Error(t, m.Restart())
			continue
		}
		must(t, m.Restart())
		there, err := redis.Int(m.Do("EXISTS", "first", "last"))
		require.NoError(t, err)
		require.Equal(t, 1, there, "it forgot the last one")
		assert.False(t, identity(t, m).Durable)
	}
}

// A server whose disk is full ends itself, and again after a start. What it answered before is
// there once there is room.
func TestServersOnAFullDiskForgetNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=128k", "none", dir).CombinedOutput(); err != nil {
		t.Skipf("a small disk takes the right to mount one, run this test as root: %v %s", err, out)
	}
	t.Cleanup(func() { assert.NoError(t, exec.Command("umount", "--lazy", dir).Run()) })
	m := redistest.StartOne(t, redistest.WithArgs(durable...), redistest.WithArgs("--dir", dir))
	filler := filepath.Join(dir, "filler")
	require.NoError(t, os.WriteFile(filler, make([]byte, 32<<10), 0o600))
	fill := func(from int) (until int) {
		for ; ; from++ {
			require.Less(t, from, 10_000, "its disk is not full")
			if _, err := m.Do("SET", "key", from); err != nil {
				return from
			}
		}
	}
	full := fill(1)
	must(t, m.Restart())
	again := fill(full)
	assert.LessOrEqual(t, again, full+100, "it went on for long") // the start may have found a page
	require.NoError(t, os.Remove(filler))
	must(t, m.Restart())
	last, err := redis.Int(m.Do("GET", "key"))
	require.NoError(t, err)
	assert.Equal(t, again-1, last)
	assert.True(t, identity(t, m).Durable)
}
