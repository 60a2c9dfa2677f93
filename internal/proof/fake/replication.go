package fake

import (
	"strconv"
	"strings"
)

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

func (n *Node) replicationFields() []infoField {
	r := &n.process.replication
	fields := []infoField{{"Replication", "role", "master"}}
	if r.replica {
		fields = []infoField{
			{"Replication", "role", "slave"},
			{"Replication", "master_host", "127.0.0.1"},
			{"Replication", "master_port", "6379"},
			{"Replication", "master_link_status", "up"},
		}
	}
	return append(
		fields,
		infoField{"Replication", "connected_slaves", strconv.FormatInt(n.replicas.Load(), 10)},
		infoField{"Replication", "master_failover_state", "no-failover"},
		infoField{"Replication", "master_replid", r.id},
		infoField{"Replication", "master_replid2", r.id2},
		infoField{"Replication", "master_repl_offset", "0"},
		infoField{"Replication", "second_repl_offset", strconv.FormatInt(r.secondOffset, 10)},
	)
}
