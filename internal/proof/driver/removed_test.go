package driver_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/internal/fakeredis"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// missed is a client that slept through two changes: a master was removed while that was away, and
// another one was added. What others there were are gone.
type missed struct {
	*actor
	client  *client
	network *network
	members []int // that were the cluster when it fell asleep: the last one is removed
	added   int
}

// forgiven is when a master that forgot votes again, and everybody has seen that.
const forgiven = 12 * time.Second

// knowsTooLittle has clients that know too little of their cluster: its name alone, or what its
// list was before two changes.
func knowsTooLittle(a *actor) {
	a.ready()
	namesItsCluster(a)
	remembersRemoved(a)
}

// remembersRemoved has a removed master come back that was not told so. A client hears it that
// slept, and another one does not.
func remembersRemoved(a *actor) {
	a.withoutClients(func() {
		if s, err := a.misses(); err == nil {
			if a.plan.rng("an operator", 0).IntN(3) > 1 {
				s.changesBeside()
			} else {
				pick(a.rng, s.besideMember, s.beforeMember)()
			}
		}
	})
	time.Sleep(forgiven)
}

// misses returns a client that hears nobody since before the changes.
func (a *actor) misses() (*missed, error) {
	s := &missed{actor: a, members: a.rng.Perm(a.plan.masters), added: a.plan.masters}
	p := a.plan.clients[0]
	p.list = s.members
	s.client, s.network = a.apart(&p)
	s.hears(s.network)
	operator, to := a.apart(&p)
	defer operator.current().close()
	s.hears(to, s.members[0], s.members[1], s.added)
	ctx, cancel := context.WithTimeout(a.base, 20*time.Second)
	defer cancel()
	cluster := admin.Of(operator.current().locker).Cluster()
	err := cluster.Remove(ctx, memberOf(a.masters[s.members[2]]))
	if err == nil {
		err = cluster.Add(ctx, a.endpoints[s.added])
	}
	a.promise("a change in calm times", err == nil, "Remove and Add: %v", err)
	if err != nil {
		s.client.current().close()
	}
	return s, err
}

// hears has a client hear some masters, and no others.
func (a *actor) hears(n *network, some ...int) {
	for i, endpoint := range a.endpoints {
		n.cuts(endpoint, !slices.Contains(some, i))
	}
}

// besideMember has one more master forget. It does not rejoin by the word of the removed one beside
// a member that was told more.
func (s *missed) besideMember() {
	s.forget(s.members[:1], func(other *life) (first, second *life) { return other, s.client.current() })
}

// beforeMember has two members forget, which rejoin by the word of the removed one where nobody
// hears the third. What they granted since is over before they are members beside that one.
func (s *missed) beforeMember() {
	s.forget(s.members[:2], func(other *life) (first, second *life) {
		s.hears(s.network, s.members[0], s.members[2])
		return s.client.current(), other
	})
}

// forget has masters forget, the client hear those that it knew, and then two compete for a name.
// The other one does not hear the first master.
func (s *missed) forget(some []int, those func(other *life) (first, second *life)) {
	p := s.plan.clients[1]
	p.list = []int{s.members[0], s.members[1], s.added}
	for _, i := range some {
		s.masters[i].breaks("is flushed", 0)
	}
	s.hears(s.network, s.members...)
	time.Sleep(forgiven)
	n := &network{dial: s.connect, off: map[string]bool{s.endpoints[s.members[0]]: true}}
	other := s.newClientBehind(&p, n).current()
	defer other.close()
	first, second := those(other)
	name := "removed-" + s.fresh()
	h := s.lasting(first, name)
	for h != nil && h.lock.Err() == nil {
		s.acquireBy(second, s.unrenewed(s.mutex(name, false)))
		time.Sleep(upTo(s.rng, 50*time.Millisecond))
	}
	s.client.current().close()
	time.Sleep(forgiven) // the newest list has a majority of its members again
	s.hears(n, append(s.members, s.added)...)
	time.Sleep(forgiven)
}

// changesBeside has an operator make a change just as it hears the member that was told more. Two
// members have forgotten, and rejoined by the word of the removed one without what they may have
// accepted before. That they must wait is late at one of them, and does not reach the other.
func (s *missed) changesBeside() {
	late, cut := s.masters[s.members[0]].(*fakeMaster), s.endpoints[s.members[1]]
	for _, i := range s.members[:2] {
		s.masters[i].breaks("is flushed", 0)
	}
	for _, i := range s.members[:2] { // each rejoins where the other one is not heard
		s.hears(s.network, i, s.members[2])
		time.Sleep(forgiven)
	}
	s.hears(s.network, s.members...)
	time.Sleep(forgiven)
	operator := s.client.current()
	defer operator.close()
	ctx, cancel := context.WithTimeout(s.base, 2*forgiven)
	defer cancel()
	late.Delay(func() time.Duration { return 200 * latency }, nil)
	s.masters[s.members[2]].breaks("disconnects", 0) // the operator's client asks all masters
	time.Sleep(upTo(s.rng, 200*latency))
	s.hears(s.network, append(s.members, s.added)...)
	cluster := admin.Of(operator.locker).Cluster()
	dialing := make(chan error, 1)
	go func() { dialing <- cluster.Add(ctx, s.endpoints[s.added]) }()
	for !operator.knows(s.endpoints[s.added]) && ctx.Err() == nil {
		time.Sleep(latency / 10)
	}
	var once sync.Once
	late.OnCommand(func(c fakeredis.Command) {
		if slices.Contains(c.Args, membersKey) { // the client asks all once more when it has this answer
			once.Do(func() {
				s.network.cuts(cut, true)
				time.AfterFunc(4*latency, func() { s.network.cuts(cut, false) })
			})
		}
	})
	err := cluster.SetMaxTTL(ctx, s.plan.maxTTL+slightly)
	s.note("script", "Add: %v, SetMaxTTL: %v", <-dialing, err)
	late.OnCommand(nil)
	late.calm()
	time.Sleep(forgiven)
}

// knows reports whether a Locker knows what a master says that is no member.
func (l *life) knows(endpoint string) bool {
	return slices.ContainsFunc(l.locker.Stats().Nodes, func(n redlock.NodeStats) bool {
		return strings.HasSuffix(n.Endpoint, endpoint) && is(n.Barred, redlock.ErrNotMember) && n.State == pool.Up
	})
}
