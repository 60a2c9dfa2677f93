package redlock_test

import (
	"time"

	"github.com/redquorum/redquorum/internal/proof/fake"
)

// way is a way in which a master loses its memory, or seems to.
type way func(a *amnesia, i int)

// keeps loses nothing: the only faults are wrong clocks and cut routes.
func keeps(*amnesia, int) {}

// outage is the longest time for which a server is down when it is restarted at once.
const outage = 50 * time.Millisecond

// down kills a server and returns it, sometimes after a short outage. The caller restarts it.
func (a *amnesia) down(i int) *fake.Node {
	a.servers[i].Kill()
	if a.rng.IntN(2) == 0 {
		a.pause(upTo(a.rng, outage))
	}
	return a.servers[i]
}

// restartsEmpty is a restart without persistence.
func restartsEmpty(a *amnesia, i int) {
	if a.loses(i) {
		a.down(i).Restart(false)
	}
}

// allRestartEmpty is a power failure.
func allRestartEmpty(a *amnesia, _ int) {
	for i := range a.servers {
		if a.loses(i) {
			a.servers[i].Restart(false)
			a.dead[i] = false
		}
	}
}

// restartsDurable is a restart of a durable server, which keeps everything. A server that becomes
// durable only shortly before a restart is a case of restartsDurableSince.
func restartsDurable(a *amnesia, i int) {
	if a.keeping[i] {
		a.down(i).Restart(true)
	}
}

// restartsDurableSince is a restart at which the operator switches persistence on. Nothing was
// written to the disk before.
func restartsDurableSince(a *amnesia, i int) {
	if a.loses(i) {
		server := a.down(i)
		setDurable(server)
		a.keeping[i] = true
		server.Restart(false)
	}
}

func setDurable(server *fake.Node) {
	server.SetConfig("appendonly", "yes")
	server.SetConfig("appendfsync", "always")
}

// saves takes a snapshot, for restartsStale and followsItsReplica.
func saves(a *amnesia, i int) { a.servers[i].Save() }

// restartsStale is a restart from a snapshot that missed the latest writes. A durable server never
// restarts so: a disk that was rolled back to an old copy looks just like one that was kept.
func restartsStale(a *amnesia, i int) {
	if !a.keeping[i] && a.loses(i) {
		a.down(i).RestartFromSnapshot()
	}
}

// flushes is a FLUSHALL.
func flushes(a *amnesia, i int) {
	if a.loses(i) {
		a.servers[i].FlushAll()
	}
}

// followsAnother is REPLICAOF another master, of this cluster or another one, and back. Connections
// survive.
func followsAnother(a *amnesia, i int) {
	if !a.loses(i) {
		return
	}
	other := a.spare
	if k := a.rng.IntN(len(a.servers)); k != i {
		other = a.servers[k]
	}
	a.servers[i].ReplicateFrom(other)
	a.pause(upTo(a.rng, outage))
	a.servers[i].Promote()
}

// followsAnotherDurably is followsAnother with a restart after it. The server is as durable as
// before, and only the data tells that it was a replica.
func followsAnotherDurably(a *amnesia, i int) {
	if a.keeping[i] {
		followsAnother(a, i)
		a.down(i).Restart(true)
	}
}

// followsItsReplica is a failover to a replica that lagged behind, and back. No connection survives
// it: a surviving one would see only data that looks like the node's own memory.
func followsItsReplica(a *amnesia, i int) {
	if a.keeping[i] || !a.loses(i) {
		return
	}
	a.servers[i].ReplicateFromSnapshot()
	a.pause(upTo(a.rng, outage))
	a.servers[i].Disconnect() // until it is a master again, no client stays connected
	a.servers[i].Promote()
}

// isReplaced puts another server behind the endpoint, which has been up for an hour or has just
// started.
func isReplaced(a *amnesia, i int) {
	if !a.loses(i) {
		return
	}
	server := a.newNode(fake.WithUptime(a.uptime()))
	a.watch(i, server)
	a.keeping[i] = a.rng.Float64() < a.durable
	if a.keeping[i] {
		setDurable(server)
	}
	a.replaceServer(i, server)
	a.slowDown(i, a.latency)
}

// isSwitched puts another server behind the endpoint and its open connections, as a proxy may.
func isSwitched(a *amnesia, i int) {
	if a.loses(i) {
		a.servers[i].SwitchServer(a.uptime())
	}
}

func (a *amnesia) uptime() time.Duration {
	if a.rng.IntN(2) == 0 {
		return time.Hour
	}
	return 0
}
