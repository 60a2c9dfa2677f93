package fake

import (
	"fmt"
	"testing"
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

func TestRestartWithoutASnapshotIsEmpty(t *testing.T) {
	inBubble(t, func(t *testing.T, n *Node) {
		do(dial(t, n), "SET", "k", "v")
		n.RestartFromSnapshot()
		assert.Empty(t, n.Keys())
	})
}

func TestFlushAllLeavesConnectionsAndTheSnapshot(t *testing.T) {
	inBubble(t, func(t *testing.T, n *Node) {
		c := dial(t, n)
		do(c, "SET", "k", "v")
		n.Save()
		before := n.RunID()
		n.FlushAll()
		assert.Equal(t, "<nil>", do(c, "GET", "k"))
		assert.Equal(t, before, n.RunID())
		n.RestartFromSnapshot()
		assert.Equal(t, []string{"k"}, n.Keys())
	})
}

func TestServerIsSwitchedUnderItsConnections(t *testing.T) {
	inBubble(t, func(t *testing.T, n *Node) {
		c, listener := dial(t, n), dial(t, n)
		do(listener, "SUBSCRIBE", "a")
		do(c, "SET", "k", "v")
		digest := "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"
		require.Equal(t, fmt.Sprintf("%q", digest), do(c, "SCRIPT", "LOAD", "return 1"))
		before := n.RunID()
		n.SwitchServer(time.Hour)
		assert.Equal(t, "<nil>", do(c, "GET", "k"))
		assert.Equal(t, n.RunID(), infoOf(t, c, "run_id"))
		assert.NotEqual(t, before, n.RunID())
		assert.Equal(t, "3600", infoOf(t, c, "uptime_in_seconds"))
		assert.Equal(t, "-"+noScript, do(c, "EVALSHA", digest, "0"))
		_, err := listener.Receive()
		require.Error(t, err)
		assert.Equal(t, "3", do(dial(t, n), "CLIENT", "ID"))
	})
}

func TestDisconnectEndsConnectionsAndNothingElse(t *testing.T) {
	inBubble(t, func(t *testing.T, n *Node) {
		c := dial(t, n)
		do(c, "SET", "k", "v")
		before := n.RunID()
		n.Disconnect()
		_, err := c.Do("PING")
		require.Error(t, err)
		assert.Equal(t, `"v"`, do(dial(t, n), "GET", "k"))
		assert.Equal(t, before, n.RunID())
	})
}

func TestChangesOfKeysAreObserved(t *testing.T) {
	inBubble(t, func(t *testing.T, n *Node) {
		c := dial(t, n)
		var changes []Change
		n.OnChange(func(change Change) { changes = append(changes, change) })
		do(c, "SET", "k", "a")
		do(c, "SET", "k", "a", "PX", "1000")
		do(c, "EVAL", "redis.call('SET', KEYS[1], 'b') return redis.call('DEL', KEYS[1])", "1", "k")
		do(c, "ZADD", "z", "1", "a")
		do(c, "DEL", "z")
		do(c, "SET", "k", "c", "PX", "10")
		time.Sleep(time.Second)
		do(c, "SET", "k", "d")
		n.FlushAll()
		assert.Equal(t, []Change{{"k", "a", "b"}, {"k", "b", ""}}, changes)
	})
}

func TestExpireEndsTheTimeOfOneKey(t *testing.T) {
	inBubble(t, func(t *testing.T, n *Node) {
		c := dial(t, n)
		do(c, "SET", "gone", "v", "PX", "5000")
		do(c, "SET", "kept", "v", "PX", "5000")
		n.OnChange(func(c Change) { t.Errorf("told of %v", c) })
		n.Stop()
		n.Expire("gone")
		n.Expire("never there")
		assert.Equal(t, []string{"kept"}, n.Keys())
		n.Continue()
		assert.Equal(t, "-2", do(c, "PTTL", "gone"))
	})
}
