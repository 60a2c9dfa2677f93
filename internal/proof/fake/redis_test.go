package fake

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock"
)

// Each file in testdata is a conversation that starts without keys. A line is a command; '...' is
// one word of it.
func TestFakeAnswersAsRedisDoes(t *testing.T) {
	real := startRedis(t)
	fake, err := newSystemNode(t).Dial(context.Background())
	require.NoError(t, err)
	imitation := redis.NewConn(fake, 0, 0)
	defer imitation.Close()

	paths, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			conversation, err := os.ReadFile(path)
			require.NoError(t, err)
			for _, c := range []redis.Conn{real, imitation} {
				require.Equal(t, "+OK", do(c, "SELECT", "0"))
				require.Equal(t, "+OK", do(c, "FLUSHALL"))
			}
			for line := range strings.Lines(string(conversation)) {
				words := split(strings.TrimSpace(line))
				assert.Equal(t, do(real, words...), do(imitation, words...),
					"redis-server (expected) and the fake on %q", words)
			}
		})
	}
}

// The error of a script names the line on which it failed.
func TestFakeNamesTheLineOfAnErrorAsRedisDoes(t *testing.T) {
	real := startRedis(t)
	conn, err := newSystemNode(t).Dial(context.Background())
	require.NoError(t, err)
	fake := redis.NewConn(conn, 0, 0)
	defer fake.Close()
	for _, script := range []string{
		"local a = 1\nlocal b = 2\nreturn redis.call('nope')",
		"local a = 1\nredis.call('nope')\nreturn 1",
		"local a = 1\n\nerror('x')",
		"local a = 1\n\nerror({err='MY x'})",
		"local function f()\nredis.call('nope')\nend\n\nf()",
		"-- a\nx = 1",
	} {
		assert.Equal(t, do(real, "EVAL", script, "0"), do(fake, "EVAL", script, "0"), script)
	}
}

// split splits a line into words; '...' is one word.
func split(line string) []string {
	var words []string
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			words = append(words, part)
		} else {
			words = append(words, strings.Fields(part)...)
		}
	}
	return words
}

func newSystemNode(t *testing.T) *Node {
	t.Helper()
	n := New(clock.System())
	t.Cleanup(n.Close)
	return n
}

// startRedis starts a redis-server that ends with the test, and returns a connection to it.
func startRedis(t *testing.T) redis.Conn {
	t.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		skipOutsideCI(t, "no redis-server in PATH")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)
	require.NoError(t, listener.Close())

	server := exec.Command(program, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
		"--dir", t.TempDir())
	require.NoError(t, server.Start())
	t.Cleanup(func() {
		require.NoError(t, server.Process.Kill())
		require.Error(t, server.Wait(), "killed")
	})
	for range 500 { // 5 s, for a busy machine
		if c, err := redis.Dial("tcp", "127.0.0.1:"+port); err == nil {
			t.Cleanup(func() { c.Close() })
			info, err := redis.String(c.Do("INFO", "server"))
			require.NoError(t, err)
			if !strings.Contains(info, "redis_version:7.0.") {
				skipOutsideCI(t, "redis-server is not 7.0, which the fake imitates")
			}
			return c
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("redis-server did not answer within 5 s")
	return nil
}

func skipOutsideCI(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal("CI must compare the fake with Redis: " + why)
	}
	t.Skip("the fake is not compared with Redis: " + why)
}
