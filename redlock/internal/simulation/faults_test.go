package simulation_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redquorum/redquorum/internal/fakeredis"
	"github.com/redquorum/redquorum/redlock"
)

// faults are the kinds of faults that may happen in a simulation.
type faults struct {
	losses   bool // requests and replies are lost together with their connections
	outages  bool // nodes are muted, stopped or killed
	restarts bool // killed nodes come back without their keys
	refusals bool // servers forbid publish and subscribe for a while
	closings bool // Lockers are closed and replaced
}

// fault is one thing that breaks, and heals again.
type fault struct {
	ill    *ill
	target int // a node, or a process
	much   int // how much of it, from 1
}

// ill is a kind of fault.
type ill struct {
	name      string
	in        func(faults) bool // where it occurs; nil: only in kinds that name it
	ofProcess bool              // the others are of nodes
	ofOne     bool              // all of a history are of the same node
	begin     func(s *simulation, f *fault)
	end       func(s *simulation, f *fault) // heals it; nil if it heals by itself
}

// of is something that happens to a node.
func of(act func(n *fakeredis.Node, much int)) func(*simulation, *fault) {
	return func(s *simulation, f *fault) { act(s.Servers[f.target], f.much) }
}

// simply is of, without a measure.
func simply(act func(n *fakeredis.Node)) func(*simulation, *fault) {
	return of(func(n *fakeredis.Node, _ int) { act(n) })
}

// forgets is a way to lose the keys, where a node may.
func forgets(act func(s *simulation, f *fault)) func(*simulation, *fault) {
	return func(s *simulation, f *fault) {
		if !s.dead[f.target] && s.mayForget(f.target) {
			s.born[f.target] = s.Clock.Now()
			act(s, f)
		}
	}
}

var (
	refusable = [][]string{{"publish"}, {"subscribe"}, {"zadd", "zpopmin"}}

	always     = func(faults) bool { return true }
	ifLosses   = func(f faults) bool { return f.losses }
	ifOutages  = func(f faults) bool { return f.outages }
	ifRestarts = func(f faults) bool { return f.restarts }
	ifRefusals = func(f faults) bool { return f.refusals }
	ifClosings = func(f faults) bool { return f.closings }
)

// ills lists them. A fault that ends heals what others of its kind broke at the node as well.
var ills = []ill{
	{
		name: "slow", in: always, end: func(s *simulation, f *fault) { s.slowDown(f.target, s.latency) },
		begin: func(s *simulation, f *fault) {
			s.slowDown(f.target, time.Duration(f.much)*time.Millisecond+s.latency)
		},
	},
	{
		name: "loses requests", in: ifLosses, begin: of(func(n *fakeredis.Node, much int) { n.LoseRequests(1 + much%2) }),
		end: simply(func(n *fakeredis.Node) { n.LoseRequests(0) }),
	},
	{
		name: "loses replies", in: ifLosses, begin: of(func(n *fakeredis.Node, much int) { n.LoseReplies(1 + much%2) }),
		end: simply(func(n *fakeredis.Node) { n.LoseReplies(0) }),
	},
	{
		name: "cuts after a command", in: ifLosses, begin: of(func(n *fakeredis.Node, much int) { n.CutAfterWrite(1 + much%5) }),
		end: simply(func(n *fakeredis.Node) { n.CutAfterWrite(0) }),
	},
	{name: "cuts a reply", in: ifLosses, begin: of((*fakeredis.Node).CutReply)},
	{name: "drops its connections", in: ifLosses, begin: simply((*fakeredis.Node).Disconnect)},
	{
		name: "mute", in: ifOutages, begin: simply(func(n *fakeredis.Node) { n.Mute(true) }),
		end: simply(func(n *fakeredis.Node) { n.Mute(false) }),
	},
	{
		name: "without replies", in: ifOutages, begin: simply(func(n *fakeredis.Node) { n.MuteReplies(true) }),
		end: simply(func(n *fakeredis.Node) { n.MuteReplies(false) }),
	},
	{name: "stopped", in: ifOutages, begin: simply((*fakeredis.Node).Stop), end: simply((*fakeredis.Node).Continue)},
	{name: "killed", in: ifOutages, begin: kills, end: comesBack},
	{
		name: "restarts empty", in: ifRestarts,
		begin: forgets(func(s *simulation, f *fault) { s.down(f.target).Restart(false) }),
	},
	{ // a durable one never does: a disk that was rolled back looks just like one that was kept
		name: "restarts from a snapshot", in: ifRestarts, begin: simply((*fakeredis.Node).Save),
		end: forgets(func(s *simulation, f *fault) {
			if !s.keeping[f.target] {
				s.down(f.target).RestartFromSnapshot()
			}
		}),
	},
	{name: "is flushed", in: ifRestarts, begin: forgets(func(s *simulation, f *fault) { s.Servers[f.target].FlushAll() })},
	{
		name: "refuses commands", in: ifRefusals,
		begin: of(func(n *fakeredis.Node, much int) {
			n.RefuseWith("NOPERM this user has no permissions", refusable[much%len(refusable)]...)
		}),
		end: func(s *simulation, f *fault) { s.Servers[f.target].RefuseWith("", refusable[f.much%len(refusable)]...) },
	},
	{name: "replaces its Locker", in: ifClosings, ofProcess: true, begin: func(s *simulation, f *fault) { s.processes[f.target].replace() }},
	{name: "wrong clock", ofOne: true, begin: hasWrongClock, end: simply(func(n *fakeredis.Node) { n.SetClock(0, 1) })},
	{name: "wrong counter", ofOne: true, begin: hasWrongCounter},
	{name: "all restart empty", begin: allRestartEmpty},
	{name: "becomes durable", begin: forgets(becomesDurable)},
	{name: "follows another", begin: forgets(followsAnother)},
	{name: "follows another durably", begin: forgets(followsAnotherDurably)},
	{name: "is saved", begin: simply((*fakeredis.Node).Save)},
	{name: "follows its replica", begin: forgets(followsItsReplica)},
	{name: "is replaced", begin: forgets(isReplaced)},
	{name: "is switched", begin: forgets(func(s *simulation, f *fault) { s.Servers[f.target].SwitchServer(s.uptime()) })},
	{
		name: "out of reach", ofProcess: true, end: ofRoute(func(_ *simulation, r *route) { r.set(0) }),
		begin: ofRoute(func(s *simulation, r *route) { r.set(s.minority(s.rng)) }),
	},
	{
		name: "stands still", ofProcess: true, end: ofRoute(func(_ *simulation, r *route) { r.hold(false) }),
		begin: ofRoute(func(_ *simulation, r *route) { r.hold(true) }),
	},
}

func kills(s *simulation, f *fault) {
	if !s.dead[f.target] {
		s.Servers[f.target].Kill()
		s.dead[f.target] = true
	}
}

// comesBack restarts a killed node with its data.
func comesBack(s *simulation, f *fault) {
	if s.dead[f.target] {
		s.Servers[f.target].Restart(true)
		s.dead[f.target], s.born[f.target] = false, s.Clock.Now()
	}
}

// maySpare reports whether a node may lose its keys now: the young nodes stay so few that the
// cluster cannot pass for one that was just started, and that the nodes that may have forgotten a
// lock are not a quorum.
func (s *simulation) maySpare(i int) bool {
	young := 1
	for k, at := range s.born {
		if k != i && at != 0 && s.Clock.Now().Sub(at) < 2*s.maxTTL+2*time.Second {
			young++
		}
	}
	return young < (s.fewest()+1)/2
}

// ofRoute does something to the network of the process that a fault concerns.
func ofRoute(act func(s *simulation, r *route)) func(*simulation, *fault) {
	return func(s *simulation, f *fault) { act(s, s.processes[f.target].route) }
}

// hasWrongClock sets a clock ahead or back, by less than the life of a counter.
func hasWrongClock(s *simulation, f *fault) {
	s.Servers[f.target].SetClock(time.Duration(f.much-10)*50*time.Second, 1)
}

func hasWrongCounter(s *simulation, f *fault) {
	s.spoil(f.target, rand.New(rand.NewPCG(s.seed, uint64(f.much))))
}

// illsOf returns what may break: what is natural, unless the nodes are still, and what is named.
func illsOf(still bool, f faults, named []string) (all []*ill) {
	for i := range ills {
		one := &ills[i]
		if !still && one.in != nil && one.in(f) || slices.Contains(named, one.name) {
			all = append(all, one)
		}
	}
	return all
}

// begin lets a fault begin.
func (s *simulation) begin(f *fault) {
	if !f.ill.ofProcess {
		s.whole[f.target].Store(-1)
	}
	f.ill.begin(s, f)
}

// end lets a fault end.
func (s *simulation) end(f *fault) {
	if f.ill.end != nil {
		f.ill.end(s, f)
	}
	if !f.ill.ofProcess {
		s.whole[f.target].Store(int64(s.Clock.Now()))
	}
}

// Phases of the weather: a storm of faults, then a calm in which the damage heals and the judge
// watches.
const (
	stormTime = 2 * time.Second
	calmTime  = 3 * time.Second
)

// weather breaks the nodes and heals them, in turn, until the simulation ends.
func (s *simulation) weather(rng *rand.Rand) {
	for s.goesOn() {
		s.judge.storm()
		for end := s.Clock.Now().Add(stormTime); s.Clock.Now() < end && s.goesOn(); {
			s.breakOne(rng)
			s.pause(upTo(rng, 40*time.Millisecond))
		}
		s.heal()
		s.judge.calmSince(s.Clock.Now().Add(s.mending))
		s.pause(s.mending + calmTime)
	}
	s.heal()
}

// breakOne lets a random fault begin at a node or a process, or an earlier one end.
func (s *simulation) breakOne(rng *rand.Rand) {
	if open := len(s.open); open > 0 && rng.IntN(3) == 0 {
		i := rng.IntN(open)
		s.end(s.open[i])
		s.open = slices.Delete(s.open, i, i+1)
		return
	}
	all := illsOf(s.kind.still, s.faults, s.kind.ills)
	f := &fault{ill: all[rng.IntN(len(all))], target: s.victim(rng), much: 1 + rng.IntN(20)}
	switch {
	case f.ill.ofProcess:
		f.target = rng.IntN(len(s.processes))
	case f.ill.ofOne:
		f.target = s.faulty
	}
	s.strike(f)
}

// strike lets a fault begin that heal ends, if it does not end by itself.
func (s *simulation) strike(f *fault) {
	if s.begin(f); f.ill.end != nil {
		s.open = append(s.open, f)
	} else {
		s.end(f)
	}
}

// slowDown makes a node's commands and replies take about d/2 each, and at least d/10: if they took
// no time at all, clients could pass votes to each other forever.
func (s *simulation) slowDown(i int, d time.Duration) {
	s.Servers[i].DelayBetween(d/10, d/10+d, s.seed+uint64(i))
}

// heal ends all faults. Small delays remain.
func (s *simulation) heal() {
	for _, f := range s.open {
		s.end(f)
	}
	s.open = nil
}

// illOf returns one by its name.
func illOf(name string) *ill {
	return &ills[slices.IndexFunc(ills, func(i ill) bool { return i.name == name })]
}

// inTurn breaks nodes and heals all of them, in turn. "" leaves a node whole.
func inTurn(broken, whole time.Duration, choices ...string) person {
	return func(s *simulation, rng *rand.Rand) {
		for s.goesOn() {
			for i := range s.Servers {
				if one := choices[rng.IntN(len(choices))]; one != "" {
					s.strike(&fault{ill: illOf(one), target: i})
				}
			}
			s.pause(upTo(rng, broken))
			s.heal()
			s.pause(upTo(rng, whole))
		}
	}
}

// Phases of a token simulation: some locks, and then none for longer than counters live.
const (
	era       = 12 * time.Minute
	eraActive = time.Second
)

// tokens gives one master a wrong clock and wrong counters, and breaks nothing else. These faults
// make the master forget locks, so two clients may hold a lock at once; only tokens are judged.
func tokens(s *simulation, rng *rand.Rand) {
	served := 0
	for s.goesOn() {
		s.pause(upTo(rng, eraActive/4))
		switch rng.IntN(3) {
		case 0:
			s.nearest(rng)
		case 1:
			s.Servers[s.faulty].SetClock(wrongClocks[rng.IntN(len(wrongClocks))], 1)
		default:
			s.spoil(s.faulty, rng)
		}
		if s.active() {
			continue
		}
		if now := s.judge.tenures(); now == served {
			s.judge.fail("no client got a lock with a token in the last %v", era)
		} else {
			served = now
		}
		if rng.IntN(2) == 0 {
			s.Servers[s.faulty].SetClock(0, 1)
		}
		s.pause(era - time.Duration(s.Clock.Now())%era)
	}
	s.Servers[s.faulty].SetClock(0, 1)
}

var wrongClocks = []time.Duration{0, time.Minute, -time.Minute, time.Hour, -time.Hour, 365 * 24 * time.Hour, 290 * 365 * 24 * time.Hour}

// active reports whether clients lock now.
func (s *simulation) active() bool { return time.Duration(s.Clock.Now())%era < eraActive }

// nearest changes which nodes answer first, so different nodes form the quorum.
func (s *simulation) nearest(rng *rand.Rand) {
	for i := range s.Servers {
		s.slowDown(i, time.Millisecond<<rng.IntN(4))
	}
}

// spoil writes values that redquorum never writes into the counters of a node. They are not smaller
// than what is there: that would be a lost counter, which must stay out for a while (S16).
func (s *simulation) spoil(i int, rng *rand.Rand) {
	key := "redquorum:fence:" + s.names[rng.IntN(len(s.names))]
	now := s.Clock.Wall().UnixMicro()
	commands := [][]any{
		{"SET", key, "9007199254740990"},
		{"SET", key, "9007199254740991"},
		{"SET", key, "9007199254740992"},
		{"SET", key, "99999999999999999999"},
		{"SET", key, "text"},
		{"SET", key, ""},
		{"SET", key, now + time.Hour.Microseconds()},
		{"SET", key, now + time.Minute.Microseconds(), "PX", 600000},
		{"EVAL", "redis.call('DEL', KEYS[1]) return redis.call('ZADD', KEYS[1], 1, 'member')", "1", key},
	}
	network, err := s.Servers[i].Dial(s.base)
	if err != nil {
		return
	}
	conn := redis.NewConn(network, time.Second, time.Second)
	defer conn.Close()
	command := commands[rng.IntN(len(commands))]
	_, _ = conn.Do(command[0].(string), command[1:]...) //nolint:errcheck // nothing is down
}

// fences takes a lock with a token while the simulation is active.
func fences(c *client) {
	s, name := c.sim(), c.name()
	if !s.active() {
		s.pause(era - time.Duration(s.Clock.Now())%era)
		return
	}
	lock, t := c.waits([]string{name}, func(ctx context.Context, l *redlock.Locker) (*redlock.Lock, error) {
		return l.Lock(ctx, name, redlock.WithFencing())
	})
	if lock == nil {
		return
	}
	if ahead := time.UnixMicro(lock.Fence()).Sub(s.Clock.Wall()); ahead > farAhead {
		s.judge.fail("%s got a token that is %v ahead of true time", c.who, ahead)
	}
	c.hold(lock, t)
}

// farAhead is the most that a token may be ahead of true time: twice what a client's clock may be
// off.
const farAhead = time.Minute
