package fakeredis

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

// A party is a server, real or imitated, and the connections to it by their names.
type party struct {
	dial  func() redis.Conn
	conns map[string]redis.Conn
}

func (p *party) conn(name string) redis.Conn {
	if p.conns[name] == nil {
		p.conns[name] = p.dial()
	}
	return p.conns[name]
}

// say sends a command on the connection of that name, or, without words, waits for a message there.
func (p *party) say(name string, words ...string) string {
	if len(words) == 0 {
		return show(p.conn(name).Receive())
	}
	return do(p.conn(name), words...)
}

var namedLine = regexp.MustCompile(`^(\w+):(?: +|$)(.*)$`)

// Each file in testdata is a conversation that starts without keys. A line is a command; '...' is
// one word of it, in which \n is a line break. "name: command" goes over another connection, and
// "name:" alone waits there for a message.
func TestFakeAnswersAsRedisDoes(t *testing.T) {
	server := startRedis(t)
	paths, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			conversation, err := os.ReadFile(path)
			require.NoError(t, err)
			n := newNode(t)
			real := &party{func() redis.Conn { return dialReal(t, server) }, map[string]redis.Conn{}}
			fake := &party{func() redis.Conn { return dial(t, n) }, map[string]redis.Conn{}}
			require.Equal(t, "+OK", real.say("", "FLUSHALL"))
			require.Equal(t, "+OK", real.say("", "SCRIPT", "FLUSH"))
			for line := range strings.Lines(string(conversation)) {
				name, command := "", strings.TrimSpace(line)
				if m := namedLine.FindStringSubmatch(command); m != nil {
					name, command = m[1], m[2]
				}
				words := split(command)
				assert.Equal(t, real.say(name, words...), fake.say(name, words...),
					"redis-server (expected) and the fake on %q", line)
			}
		})
	}
}

// split splits a line into words; '...' is one word.
func split(line string) []string {
	var words []string
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			words = append(words, strings.ReplaceAll(part, `\n`, "\n"))
		} else {
			words = append(words, strings.Fields(part)...)
		}
	}
	return words
}

// startRedis starts a server that the fake can be compared with.
func startRedis(t *testing.T) *redistest.Server {
	t.Helper()
	server := redistest.StartOne(t)
	if version := infoOf(t, dialReal(t, server), "redis_version"); !strings.HasPrefix(version, "7.0.") {
		if os.Getenv("CI") == "true" {
			t.Fatal("CI must compare the fake with the Redis that it imitates, not with " + version)
		}
		t.Skip("the fake imitates Redis 7.0, and this is " + version)
	}
	return server
}

func dialReal(t *testing.T, server *redistest.Server) redis.Conn {
	t.Helper()
	c, err := redis.Dial("tcp", server.Addr(), redis.DialReadTimeout(time.Minute))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	return c
}

func TestFakeTellsItsConfigurationAsRedisDoes(t *testing.T) {
	real, fake := dialReal(t, startRedis(t)), dial(t, newNode(t))
	for _, patterns := range [][]any{{"GET", "*append*"}, {"GET", "append*", "*append*", "none"}, {"GET", "repl-backlog-ttl"}, {"GET", "aof-load-truncated"}} {
		want, err := redis.StringMap(real.Do("CONFIG", patterns...))
		require.NoError(t, err)
		got, err := redis.StringMap(fake.Do("CONFIG", patterns...))
		require.NoError(t, err)
		assert.Equal(t, want, got, patterns)
	}
}

// Two real servers and two fakes go through the same steps.
func TestFakeReplicatesAsRedisDoes(t *testing.T) {
	realMaster, realReplica := startRedis(t), startRedis(t)
	fakeMaster, fake := newNode(t), newNode(t)
	real := [2]redis.Conn{dialReal(t, realMaster), dialReal(t, realReplica)}
	do(real[0], "CONFIG", "SET", "repl-diskless-sync-delay", "0")
	pairs := [2][2]redis.Conn{real, {dial(t, fakeMaster), dial(t, fake)}}
	compare := func(when string) {
		assert.Equal(t, replicationOf(t, pairs[0]), replicationOf(t, pairs[1]), when)
	}
	ask := func(lines ...string) {
		for _, line := range lines {
			assert.Equal(t, do(pairs[0][1], split(line)...), do(pairs[1][1], split(line)...), line)
		}
	}
	follow := func() {
		fake.ReplicateFrom(fakeMaster)
		host, port, err := net.SplitHostPort(realMaster.Addr())
		require.NoError(t, err)
		require.Equal(t, "+OK", do(real[1], "REPLICAOF", host, port))
		require.Eventually(t, func() bool {
			return infoOf(t, real[1], "master_link_status") == "up" && infoOf(t, real[0], "connected_slaves") == "1"
		}, time.Minute, time.Millisecond)
	}
	for _, pair := range pairs {
		do(pair[0], "SET", "theirs", "v", "PX", "1000000")
		do(pair[1], "SET", "own", "v")
	}
	compare("apart")
	follow()
	compare("a replica")
	ask("GET theirs", "GET own", "SET k v", "SET k", "DEL k", "FLUSHALL", "ZADD z 1 a", "PEXPIRE k 5", "PUBLISH c x",
		"EVAL 'return redis.call(\"set\",\"x\",\"1\")' 0", "EVAL 'return redis.pcall(\"set\",\"x\",\"1\")' 0",
		"EVAL 'return redis.call(\"pttl\",\"theirs\") > 0' 0", "SCRIPT FLUSH", "TIME x")
	fake.Promote()
	require.Equal(t, "+OK", do(real[1], "REPLICAOF", "NO", "ONE"))
	require.Eventually(t, func() bool { return infoOf(t, real[0], "connected_slaves") == "0" }, time.Minute, time.Millisecond)
	compare("promoted")
	ask("SET k v", "GET theirs", "GET own")
	follow()
	compare("a replica again")
}

// replicationOf describes a pair of master and replica, with names in place of ids.
func replicationOf(t *testing.T, pair [2]redis.Conn) []string {
	t.Helper()
	var all []string
	masters := infoOf(t, pair[0], "master_replid")
	for i, c := range pair {
		for _, field := range []string{
			"role", "master_link_status", "connected_slaves", "master_replid", "master_replid2", "second_repl_offset",
		} {
			value := infoOf(t, c, field)
			switch {
			case value == masters:
				value = "the master's"
			case len(value) == len(noReplID) && value != noReplID:
				value = "another"
			case field == "second_repl_offset" && value != "-1": // the fake's stream has no length
				value = "an offset"
			}
			all = append(all, fmt.Sprint([]string{"master ", "replica "}[i], field, ": ", value))
		}
	}
	return all
}
