package fakeredis

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// databases is how many databases there are, as in Redis's default configuration.
const databases = 16

// disk holds the keys of each database. It survives a restart that keeps data.
type disk [databases]map[string]*entry

// entry is the value of a key: a string, a sorted set or a hash.
type entry struct {
	text    string
	set     *sortedSet        // nil for others
	hash    map[string]string // nil for others
	expires int64             // the key is gone after this Unix millisecond; 0: never
}

// kind is one of value.
type kind int

const (
	anyValue kind = iota
	aString
	aSortedSet
	aHash
)

func (e *entry) kind() kind {
	switch {
	case e.set != nil:
		return aSortedSet
	case e.hash != nil:
		return aHash
	default:
		return aString
	}
}

// nowMillis returns the time by which the running command decides about expiry, truncated to
// milliseconds as in Redis.
func (n *Node) nowMillis() int64 { return n.now / int64(time.Millisecond/time.Microsecond) }

// lookup returns a live key, or nil. Keys expire here.
func (n *Node) lookup(db int, key string) *entry {
	e := n.disk[db][key]
	if e != nil && e.expires != 0 && n.nowMillis() > e.expires {
		delete(n.disk[db], key)
		return nil
	}
	return e
}

// store sets a key.
func (n *Node) store(db int, key string, e *entry) {
	n.noteChange(db, key, e.text)
	if n.disk[db] == nil {
		n.disk[db] = make(map[string]*entry)
	}
	n.disk[db][key] = e
}

// remove deletes a key and reports whether it was there.
func (n *Node) remove(db int, key string) bool {
	if n.lookup(db, key) == nil {
		return false
	}
	n.noteChange(db, key, "")
	delete(n.disk[db], key)
	return true
}

// liveKeys returns the keys of a database, sorted, and drops expired ones.
func (n *Node) liveKeys(db int) []string {
	keys := make([]string, 0, len(n.disk[db]))
	for key := range n.disk[db] {
		if n.lookup(db, key) != nil {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// parseInt reads an integer as strictly as Redis does: no "-0", no leading zeros, no spaces.
func parseInt(text string) (int64, bool) {
	value, err := strconv.ParseInt(text, 10, 64)
	return value, err == nil && (strconv.FormatInt(value, 10) == text)
}

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
	same.hash = maps.Clone(e.hash)
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
		n.process = n.newProcess()
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
		n.process = n.newProcess()
		n.process.started -= uptime.Microseconds()
		n.process.lastClient = last // no two connections have one id
		n.disk = disk{}
	})
}

// replication is the state that INFO replication shows. A restart loses it: the new process is a
// master.
type replication struct {
	replica      bool   // writes are refused
	follows      *Node  // the master of a replica; nil if that is a snapshot
	id, id2      string // master_replid, master_replid2
	secondOffset int64  // second_repl_offset
}

// noReplID is the master_replid2 of a server that was never promoted.
var noReplID = strings.Repeat("0", 40)

// promotedOffset is the second_repl_offset of a promoted replica: a fake's stream stays at 0.
const promotedOffset = 1

func newReplication() replication {
	return replication{id: newRunID(), id2: noReplID, secondOffset: -1}
}

// ReplicateFrom makes the node a replica of another one, as REPLICAOF does: the process, its run_id
// and its connections stay, writes are refused with READONLY, and the data becomes a copy of the
// other's. Later writes of the other do not arrive: replication is asynchronous, and this one is
// slow. [Node.Promote] and a restart end it.
func (n *Node) ReplicateFrom(other *Node) {
	data, id := other.dump()
	n.replicate(data, replication{follows: other, id: id})
}

// ReplicateFromSnapshot makes the node a replica of its own former replica, which was promoted with
// the data of the last [Node.Save]. Otherwise it is [Node.ReplicateFrom].
func (n *Node) ReplicateFromSnapshot() {
	n.mu.Lock()
	data := n.saved.clone()
	n.mu.Unlock()
	n.replicate(data, replication{id: newRunID()})
}

func (n *Node) replicate(data disk, as replication) {
	as.replica, as.id2, as.secondOffset = true, noReplID, -1
	n.change(func() {
		n.unfollowLocked()
		n.disk = data
		n.process.replication = as
		if as.follows != nil {
			as.follows.replicas.Add(1)
		}
	})
}

// Promote makes a replica a master, as REPLICAOF NO ONE does. It changes nothing on a master.
func (n *Node) Promote() {
	n.change(func() {
		n.unfollowLocked()
		if r := &n.process.replication; r.replica {
			*r = replication{id: newRunID(), id2: r.id, secondOffset: promotedOffset}
		}
	})
}

// DropBacklog gives a master without replicas a new master_replid and no master_replid2, as Redis
// does repl-backlog-ttl (an hour) after the last replica leaves.
func (n *Node) DropBacklog() {
	n.change(func() {
		if !n.process.replication.replica && n.replicas.Load() == 0 {
			n.process.replication = newReplication()
		}
	})
}

// unfollowLocked removes the node from its master's count of replicas.
func (n *Node) unfollowLocked() {
	if r := &n.process.replication; r.follows != nil {
		r.follows.replicas.Add(-1)
		r.follows = nil
	}
}

// dump returns a copy of all data, and the master_replid.
func (n *Node) dump() (data disk, id string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.disk.clone(), n.process.replication.id
}

func (n *Node) replicationFields() []string {
	r := &n.process.replication
	fields := []string{"role", "master"}
	if r.replica {
		fields = []string{"role", "slave", "master_host", "127.0.0.1", "master_port", "6379", "master_link_status", "up"}
	}
	return append(
		fields,
		"connected_slaves", strconv.FormatInt(n.replicas.Load(), 10),
		"master_replid", r.id,
		"master_replid2", r.id2,
		"second_repl_offset", strconv.FormatInt(r.secondOffset, 10),
	)
}
