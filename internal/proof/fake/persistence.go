package fake

import (
	"maps"
	"slices"
	"time"
)

// clone returns a copy that shares nothing with d. Keys expire at the same wall-clock time.
func (d *disk) clone() (all disk) {
	for db := range d {
		if len(d[db]) == 0 {
			continue
		}
		all[db] = make(map[string]*entry, len(d[db]))
		for key, e := range d[db] {
			all[db][key] = e.clone()
		}
	}
	return all
}

func (e *entry) clone() *entry {
	same := *e
	if e.set != nil {
		same.set = &sortedSet{scores: maps.Clone(e.set.scores), order: slices.Clone(e.set.order)}
	}
	return &same
}

// Save takes a snapshot of the data, like an RDB file: keys keep the wall-clock time at which they
// expire. A later snapshot replaces it.
func (n *Node) Save() { n.change(func() { n.saved = n.disk.clone() }) }

// Restart kills the process, if it still runs, and starts a new one: a master with a new run_id,
// uptime 0, client ids from 1 and no scripts, neither stopped nor killed. Without keepData the
// keyspace is empty. What was set on the network (delays, mutes, losses) and by [Node.RefuseWith],
// [Node.SetInfo] and [Node.SetConfig] stays.
func (n *Node) Restart(keepData bool) {
	n.restart(func() {
		if !keepData {
			n.disk = disk{}
		}
	})
}

// RestartFromSnapshot is [Node.Restart] with the data of the last [Node.Save], or none: writes
// since then are forgotten, and keys deleted since then are back.
func (n *Node) RestartFromSnapshot() { n.restart(func() { n.disk = n.saved.clone() }) }

func (n *Node) restart(load func()) {
	n.change(func() {
		n.resetAllLocked()
		n.unfollowLocked()
		n.process = n.newProcess("")
		load()
	})
}

// FlushAll deletes all keys, like a client's FLUSHALL: connections and the snapshot stay.
func (n *Node) FlushAll() { n.change(func() { n.disk = disk{} }) }

// Expire deletes a key of database 0 as if its time had ended: the callback of [Node.OnChange] is
// not told. It also works while the node is stopped or killed.
func (n *Node) Expire(key string) { n.change(func() { delete(n.disk[0], key) }) }

// SwitchServer puts another server, empty and up for that long, behind the endpoint and its
// connections, as a proxy may: the connections stay, except those with a subscription. The new
// server executes what has arrived and is not executed yet.
func (n *Node) SwitchServer(uptime time.Duration) {
	n.change(func() {
		n.unfollowLocked()
		for _, s := range n.sessions {
			if len(s.subscribed) > 0 {
				n.resetLocked(s)
			}
		}
		last := n.process.lastClient
		n.process = n.newProcess("")
		n.process.started -= uptime.Microseconds()
		n.process.lastClient = last // no two connections have one id
		n.disk = disk{}
	})
}
