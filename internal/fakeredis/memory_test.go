package fakeredis

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRestartFromASnapshotKnowsWhatWasThereThen(t *testing.T) {
	inBubble(t, func(t *testing.T, n *Node) {
		c := dial(t, n)
		do(c, "SET", "kept", "old")
		do(c, "SET", "deleted", "v")
		do(c, "SET", "short", "v", "PX", "1000")
		do(c, "SET", "long", "v", "PX", "5000")
		do(c, "ZADD", "z", "1", "a")
		n.Save()
		do(c, "SET", "kept", "new")
		do(c, "DEL", "deleted")
		do(c, "ZADD", "z", "2", "b")
		do(c, "SET", "later", "v")
		time.Sleep(2 * time.Second)
		before := n.RunID()
		for range 2 { // a restart does not use up the snapshot
			n.RestartFromSnapshot()
			assert.NotEqual(t, before, n.RunID())
			assert.Equal(t, []string{"deleted", "kept", "long", "z"}, n.Keys())
			value, _, _ := n.Get("kept")
			assert.Equal(t, "old", value)
			_, left, _ := n.Get("long")
			assert.Equal(t, 3*time.Second, left, "the expiry is a moment, not a duration")
			again := dial(t, n)
			assert.Equal(t, `["a"]`, do(again, "ZRANGE", "z", "0", "-1"))
			do(again, "ZADD", "z", "3", "c")
		}
	})
}

// What a server, or another in its place, knows of the keys "saved" and "later", which was written
// after the snapshot, and whether its process and its connections are those of before.
func TestEachWayToForgetForgetsWhatItSays(t *testing.T) {
	saved, both := []string{"saved"}, []string{"later", "saved"}
	for name, way := range map[string]struct {
		happens func(n *Node)
		keys    []string
		process bool
		conn    bool
	}{
		"flush":           {func(n *Node) { n.FlushAll() }, nil, true, true},
		"flush, snapshot": {func(n *Node) { n.FlushAll(); n.RestartFromSnapshot() }, saved, false, false},
		"restart":         {func(n *Node) { n.Restart(true) }, both, false, false},
		"restart, empty":  {func(n *Node) { n.Restart(false) }, nil, false, false},
		"disconnect":      {func(n *Node) { n.Disconnect() }, both, true, false},
		"other server":    {func(n *Node) { n.SwitchServer(time.Hour) }, nil, false, true},
		"own replica":     {func(n *Node) { n.ReplicateFromSnapshot() }, saved, true, true},
		"once a replica":  {func(n *Node) { n.ReplicateFromSnapshot(); n.Restart(true) }, saved, false, false},
		"promoted again":  {func(n *Node) { n.ReplicateFromSnapshot(); n.Promote() }, saved, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, n *Node) {
				c, listener := dial(t, n), dial(t, n)
				do(listener, "SUBSCRIBE", "a")
				do(c, "SET", "saved", "v")
				n.Save()
				do(c, "SET", "later", "v")
				do(c, "SCRIPT", "LOAD", "return 1")
				before := n.RunID()
				way.happens(n)
				assert.ElementsMatch(t, way.keys, n.Keys())
				assert.Equal(t, way.process, before == n.RunID())
				assert.Equal(t, way.conn, do(c, "PING") == "+PONG")
				c = dial(t, n)
				assert.Equal(t, way.process, do(c, "EVALSHA", digestOf("return 1"), "0") == "1", "it knows the script")
				role, uptime := "master", "0"
				if name == "own replica" {
					role = "slave"
				}
				if name == "other server" {
					uptime = "3600"
					_, err := listener.Receive()
					require.Error(t, err, "a subscription ends")
				}
				assert.Equal(t, []string{role, uptime, n.RunID()}, []string{
					infoOf(t, c, "role"), infoOf(t, c, "uptime_in_seconds"), infoOf(t, c, "run_id"),
				})
			})
		})
	}
}

// That it refuses writes, and what it tells, is compared with a real one.
func TestReplicaHasACopyOfItsMastersData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		master, n := newNode(t), newNode(t)
		c := dial(t, n)
		do(c, "SET", "own", "v")
		master.Do(t, "SET", "k", "v", "PX", "1000")
		before := n.RunID()
		n.ReplicateFrom(master)
		assert.Equal(t, before, infoOf(t, c, "run_id"))
		assert.Equal(t, []string{"k"}, n.Keys())
		master.Do(t, "SET", "late", "v")
		n.Promote()
		assert.Equal(t, "+OK", do(c, "SET", "new", "v"), "on the connection that was open all the time")
		assert.Equal(t, []string{"k", "new"}, n.Keys())
		time.Sleep(1001 * time.Millisecond)
		assert.Equal(t, []string{"new"}, n.Keys())
		assert.Equal(t, []string{"late"}, master.Keys(), "nothing is shared")
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
		assert.Equal(t, before, infoOf(t, dial(t, n), "master_replid2"))
		n.ReplicateFrom(master)
		n.Restart(true)
		assert.Equal(t, "0", infoOf(t, c, "connected_slaves"), "a new process is a master")
		master.DropBacklog()
		assert.NotEqual(t, before, infoOf(t, c, "master_replid"))
		assert.Equal(t, noReplID, infoOf(t, c, "master_replid2"))
		assert.Equal(t, noReplID, infoOf(t, dial(t, n), "master_replid2"), "a new process has no past")
	})
}
