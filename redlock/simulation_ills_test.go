package redlock_test

import (
	"math/rand/v2"
	"slices"
	"time"
)

// ill is a kind of fault in small histories.
type ill struct {
	name      string
	in        func(faults) bool             // where it occurs; nil: only in kinds that name it
	ofProcess bool                          // the others are of nodes
	ofOne     bool                          // all of a history are of the same node
	begin     func(u *users, f *fault) bool // reports whether it broke something that was whole
	end       func(u *users, f *fault)      // heals it; nil if it heals by itself
}

// ills lists them. A fault that ends heals what others of its kind broke at the node as well.
var ills []ill

func init() { // not a literal: they refer to histories, which refer to them
	always := func(faults) bool { return true }
	losses := func(f faults) bool { return f.losses }
	outages := func(f faults) bool { return f.outages }
	restarts := func(f faults) bool { return f.restarts }
	refusals := func(f faults) bool { return f.refusals }
	ills = []ill{
		{name: "slow", in: always, begin: slows, end: func(u *users, f *fault) { u.slowDown(f.target, u.latency) }},
		{name: "loses requests", in: losses, begin: losesRequests, end: func(u *users, f *fault) { u.servers[f.target].LoseRequests(0) }},
		{name: "loses replies", in: losses, begin: losesReplies, end: func(u *users, f *fault) { u.servers[f.target].LoseReplies(0) }},
		{name: "cuts after a command", in: losses, begin: cuts, end: func(u *users, f *fault) { u.servers[f.target].CutAfterWrite(0) }},
		{name: "cuts a reply", in: losses, begin: cutsReply},
		{name: "drops its connections", in: losses, begin: disconnects},
		{name: "mute", in: outages, begin: mutes, end: func(u *users, f *fault) { u.servers[f.target].Mute(false) }},
		{name: "without replies", in: outages, begin: mutesReplies, end: func(u *users, f *fault) { u.servers[f.target].MuteReplies(false) }},
		{name: "stopped", in: outages, begin: stops, end: func(u *users, f *fault) { u.servers[f.target].Continue() }},
		{name: "killed", in: outages, begin: kills, end: comesBack},
		{name: "restarts empty", in: restarts, begin: restartsEmptyAtOnce},
		{name: "restarts from a snapshot", in: restarts, begin: snapshots, end: restartsFromSnapshot},
		{name: "is flushed", in: restarts, begin: isFlushed},
		{name: "refuses commands", in: refusals, begin: refuses, end: refusesNoMore},
		{name: "replaces its Locker", in: func(f faults) bool { return f.closings }, ofProcess: true, begin: replaces},
		{name: "wrong clock", ofOne: true, begin: hasWrongClock, end: func(u *users, f *fault) { u.servers[f.target].SetClock(0, 1) }},
		{name: "wrong counter", ofOne: true, begin: hasWrongCounter},
	}
}

// illsOf returns what may break in small histories of a kind.
func illsOf(kind *using) (all []*ill) {
	for i := range ills {
		one := &ills[i]
		natural := !kind.still && one.in != nil && one.in(kind.beside)
		if natural || slices.Contains(kind.ills, one.name) {
			all = append(all, one)
		}
	}
	return all
}

func slows(u *users, f *fault) bool {
	u.slowDown(f.target, time.Duration(f.much)*time.Millisecond+u.latency)
	return true
}

// Losses count when a message is lost.

func losesRequests(u *users, f *fault) bool {
	u.servers[f.target].LoseRequests(1 + f.much%2)
	return false
}

func losesReplies(u *users, f *fault) bool {
	u.servers[f.target].LoseReplies(1 + f.much%2)
	return false
}

func cuts(u *users, f *fault) bool {
	u.servers[f.target].CutAfterWrite(1 + f.much%5)
	return false
}

func cutsReply(u *users, f *fault) bool {
	u.servers[f.target].CutReply(f.much)
	return false
}

func disconnects(u *users, f *fault) bool {
	u.servers[f.target].Disconnect()
	return !u.dead[f.target]
}

func mutes(u *users, f *fault) bool {
	u.servers[f.target].Mute(true)
	return true
}

func mutesReplies(u *users, f *fault) bool {
	u.servers[f.target].MuteReplies(true)
	return true
}

func stops(u *users, f *fault) bool {
	u.servers[f.target].Stop()
	return !u.dead[f.target]
}

func kills(u *users, f *fault) bool {
	if u.dead[f.target] {
		return false
	}
	u.servers[f.target].Kill()
	u.dead[f.target] = true
	return true
}

// comesBack restarts a killed node with its data.
func comesBack(u *users, f *fault) {
	if u.dead[f.target] {
		u.servers[f.target].Restart(true)
		u.dead[f.target], u.born[f.target] = false, u.clock.Now()
	}
}

// forgets reports whether a node may lose its keys now, and notes that it does.
func (u *users) forgets(node int) bool {
	if u.dead[node] || !u.maySpare(node) {
		return false
	}
	u.born[node] = u.clock.Now()
	return true
}

func restartsEmptyAtOnce(u *users, f *fault) bool {
	may := u.forgets(f.target)
	if may {
		u.servers[f.target].Kill()
		u.servers[f.target].Restart(false)
	}
	return may
}

func isFlushed(u *users, f *fault) bool {
	may := u.forgets(f.target)
	if may {
		u.servers[f.target].FlushAll()
	}
	return may
}

func snapshots(u *users, f *fault) bool {
	u.servers[f.target].Save()
	return false
}

func restartsFromSnapshot(u *users, f *fault) {
	if u.forgets(f.target) {
		u.servers[f.target].RestartFromSnapshot()
		u.small.injected.Add(1)
	}
}

var refusable = [][]string{{"publish"}, {"subscribe"}, {"zadd", "zpopmin"}}

func refuses(u *users, f *fault) bool {
	u.servers[f.target].RefuseWith("NOPERM this user has no permissions", refusable[f.much%len(refusable)]...)
	return true
}

func refusesNoMore(u *users, f *fault) {
	u.servers[f.target].RefuseWith("", refusable[f.much%len(refusable)]...)
}

func replaces(u *users, f *fault) bool {
	if !u.small.keepsProcess(f.target) {
		return false
	}
	for _, p := range u.processes {
		if p.id == f.target {
			p.replace()
		}
	}
	return true
}

// hasWrongClock sets a clock ahead or back, by less than the life of a counter.
func hasWrongClock(u *users, f *fault) bool {
	by := time.Duration(f.much-10) * 50 * time.Second
	u.servers[f.target].SetClock(by, 1)
	return by != 0
}

func hasWrongCounter(u *users, f *fault) bool {
	u.spoil(f.target, rand.New(rand.NewPCG(u.seed, uint64(f.much))))
	return true
}
