package fake

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReplicaHasItsMastersDataAndRefusesWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		master, n := newNode(t), newNode(t)
		c := dial(t, n)
		do(c, "SET", "own", "v")
		do(dial(t, master), "SET", "k", "v", "PX", "1000")
		before := n.RunID()
		n.ReplicateFrom(master)
		assert.Equal(t, before, infoOf(t, c, "run_id"))
		assert.Equal(t, []string{"k"}, n.Keys())
		assert.Equal(t, "-READONLY You can't write against a read only replica.", do(c, "SET", "k", "w"))
		assert.Equal(t, "1", infoOf(t, dial(t, master), "connected_slaves"))
		do(dial(t, master), "SET", "late", "v")
		n.Promote()
		assert.Equal(t, "0", infoOf(t, dial(t, master), "connected_slaves"))
		assert.Equal(t, "+OK", do(c, "SET", "new", "v"), "on the connection that was open all the time")
		assert.Equal(t, []string{"k", "new"}, n.Keys())
		time.Sleep(1001 * time.Millisecond)
		assert.Equal(t, []string{"new"}, n.Keys())
		assert.Equal(t, []string{"late"}, master.Keys(), "nothing is shared")
	})
}

func TestReplicaOfItsOwnFormerReplicaIsAsOldAsTheSnapshot(t *testing.T) {
	inBubble(t, func(t *testing.T, n *Node) {
		c := dial(t, n)
		do(c, "SET", "old", "v")
		n.Save()
		do(c, "SET", "new", "v")
		n.ReplicateFromSnapshot()
		assert.Equal(t, "slave", infoOf(t, c, "role"))
		n.Promote()
		assert.Equal(t, []string{"old"}, n.Keys())
	})
}

func TestRestartedReplicaIsAMaster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		master, n := newNode(t), newNode(t)
		n.ReplicateFrom(master)
		n.Restart(true)
		c := dial(t, n)
		assert.Equal(t, "master", infoOf(t, c, "role"))
		assert.Equal(t, noReplID, infoOf(t, c, "master_replid2"))
		assert.Equal(t, "+OK", do(c, "SET", "k", "v"))
		assert.Equal(t, "0", infoOf(t, dial(t, master), "connected_slaves"))
	})
}

func TestMasterWithoutReplicasGetsANewReplIDInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		master, n := newNode(t), newNode(t)
		c := dial(t, master)
		before := infoOf(t, c, "master_replid")
		n.ReplicateFrom(master)
		master.DropBacklog()
		assert.Equal(t, before, infoOf(t, c, "master_replid"), "there is a replica")
		n.Promote()
		n.Promote()
		master.DropBacklog()
		assert.NotEqual(t, before, infoOf(t, c, "master_replid"))
		assert.Equal(t, noReplID, infoOf(t, c, "master_replid2"))
		assert.Equal(t, before, infoOf(t, dial(t, n), "master_replid2"))
	})
}

// Two real servers and two fakes go through the same steps.
func TestFakeReplicatesAsRedisDoes(t *testing.T) {
	realMaster, real := startRedis(t), startRedis(t)
	do(realMaster, "CONFIG", "SET", "repl-diskless-sync-delay", "0")
	fakeMaster, fake := newSystemNode(t), newSystemNode(t)
	conns := map[string][2]redis.Conn{"redis-server": {realMaster, real}, "fake": {systemDial(t, fakeMaster), systemDial(t, fake)}}
	history := make(map[string][]map[string]string)
	note := func() {
		for name, pair := range conns {
			history[name] = append(history[name], replicationOf(t, pair))
		}
	}
	answers := make(map[string][]string)
	ask := func(words ...string) {
		for name, pair := range conns {
			answers[name] = append(answers[name], do(pair[1], words...))
		}
	}
	for _, pair := range conns {
		do(pair[0], "SET", "theirs", "v")
		do(pair[1], "SET", "own", "v")
	}
	note()
	fake.ReplicateFrom(fakeMaster)
	follow(t, real, realMaster)
	note()
	for _, line := range []string{
		"GET theirs", "GET own", "SET k v", "SET k", "DEL k", "FLUSHALL", "INCR k", "ZADD z 1 a", "PEXPIRE k 5", "PUBLISH c x",
		"EVAL 'return redis.call(\"set\",\"x\",\"1\")' 0", "EVAL 'return redis.pcall(\"set\",\"x\",\"1\")' 0",
		"EVAL 'return redis.call(\"get\",\"theirs\")' 0", "SCRIPT FLUSH", "TIME x",
	} {
		ask(split(line)...)
	}
	fake.Promote()
	require.Equal(t, "+OK", do(real, "REPLICAOF", "NO", "ONE"))
	require.Eventually(t, func() bool { return infoOf(t, realMaster, "connected_slaves") == "0" }, 5*time.Second, time.Millisecond)
	note()
	ask("SET", "k", "v")
	ask("GET", "theirs")
	fake.ReplicateFrom(fakeMaster)
	follow(t, real, realMaster)
	note()
	assert.Equal(t, history["redis-server"], history["fake"])
	assert.Equal(t, answers["redis-server"], answers["fake"])
}

func systemDial(t *testing.T, n *Node) redis.Conn {
	t.Helper()
	conn, err := n.Dial(context.Background())
	require.NoError(t, err)
	c := redis.NewConn(conn, 0, 0)
	t.Cleanup(func() { c.Close() })
	return c
}

// follow makes a real server a replica of another and waits until it is one.
func follow(t *testing.T, replica, master redis.Conn) {
	t.Helper()
	require.Equal(t, "+OK", do(replica, "REPLICAOF", "127.0.0.1", infoOf(t, master, "tcp_port")))
	require.Eventually(t, func() bool {
		return infoOf(t, replica, "master_link_status") == "up" && infoOf(t, master, "connected_slaves") == "1"
	}, 10*time.Second, time.Millisecond)
}

// replicationOf describes a pair of master and replica, with names in place of ids.
func replicationOf(t *testing.T, pair [2]redis.Conn) map[string]string {
	t.Helper()
	all := make(map[string]string)
	masters := infoOf(t, pair[0], "master_replid")
	for i, c := range pair {
		for _, field := range []string{
			"role", "master_host", "master_link_status", "connected_slaves", "master_replid", "master_replid2", "second_repl_offset",
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
			all[[]string{"master ", "replica "}[i]+field] = value
		}
	}
	return all
}

func TestFakeTellsItsConfigurationAsRedisDoes(t *testing.T) {
	real, fake := startRedis(t), systemDial(t, newSystemNode(t))
	for _, patterns := range []string{"append*", "*append*", "append* *append* appendonly", "*", "APPEND*", "appendonly none", "no-appendfsync-on-rewrite appendonly", "?ppend[of]*"} {
		args := append([]any{"GET"}, redis.Args{}.AddFlat(strings.Fields(patterns))...)
		want, err := redis.StringMap(real.Do("CONFIG", args...))
		require.NoError(t, err)
		got, err := redis.StringMap(fake.Do("CONFIG", args...))
		require.NoError(t, err)
		if patterns == "*" {
			for name := range want {
				if _, known := defaultConfig[name]; !known {
					delete(want, name)
				}
			}
		}
		assert.Equal(t, want, got, patterns)
	}
}
