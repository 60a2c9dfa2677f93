package fakenode

import (
	"maps"
	"slices"
	"time"
)

// clone returns a copy that shares nothing with d. Expiry stays the same moment of the wall clock.
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

// Save takes a snapshot of the data, as an RDB file is one: keys keep the moment of the node's wall
// clock at which they expire. A later one replaces it.
func (n *Node) Save() { n.change(func() { n.saved = n.disk.clone() }) }

// Restart starts a new process after Kill, which it does first where it was not done: new run_id,
// uptime 0, client ids from 1, no scripts, a master, neither stopped nor killed. Without keepData
// the keyspace is empty. What was set on the network (delays, mute, losses) and by
// [Node.RefuseWith], [Node.SetInfo] and [Node.SetConfig] stays.
func (n *Node) Restart(keepData bool) {
	n.restart(func() {
		if !keepData {
			n.disk = disk{}
		}
	})
}

// RestartFromSnapshot is [Node.Restart] with the data of the last [Node.Save], or none: what was
// written since is forgotten, and what was deleted since is back.
func (n *Node) RestartFromSnapshot() { n.restart(func() { n.disk = n.saved.clone() }) }

func (n *Node) restart(load func()) {
	n.change(func() {
		n.resetAllLocked()
		n.unfollowLocked()
		n.process = n.newProcess("")
		load()
	})
}

// FlushAll deletes all keys, as FLUSHALL by some client does: connections and snapshot stay.
func (n *Node) FlushAll() { n.change(func() { n.disk = disk{} }) }

// SwitchServer puts another server, empty and up for that long, behind the endpoint and under its
// connections, as a proxy may: they stay, but for those that listen on a channel. What has arrived
// and is not executed yet is executed by the new server.
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
