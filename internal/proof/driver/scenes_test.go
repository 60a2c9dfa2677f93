package driver_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/election"
	"github.com/redquorum/redquorum/redlock"
)

// A scene takes the place of a storm in a few histories. It leads to what storms do not: what takes
// several faults, each at its moment, or hours. Its own moments are random, too.
type scene struct {
	masters []int // so many, any of these
	maxTTL  time.Duration
	plan    func(p *plan) // draws the rest of the plan
	play    func(a *actor)
}

// scenes are all of them, by name.
var scenes = map[string]scene{
	"a marker that comes back":   {[]int{3}, 4 * time.Second, losing, comesBack},
	"a client that dies":         {[]int{1, 3}, 2 * time.Second, func(*plan) {}, diesHolding},
	"a vote not confirmed":       {[]int{3, 5}, time.Minute, breaking, unconfirmed},
	"a change alone":             {[]int{3}, 4 * time.Second, changing, changesOnce},
	"adoptions at moments":       {[]int{1, 3}, 2 * time.Second, func(*plan) {}, adoptsAtMoments},
	"lists of two clusters":      {[]int{4, 5, 6}, 500 * time.Millisecond, twoClusters, beginsWithTwo},
	"two numbers of permits":     {[]int{3, 5}, 2 * time.Second, func(*plan) {}, numbersMeet},
	"scripts that are forgotten": {[]int{1, 3}, time.Minute, breaking, forgetsScripts},
	cutChoices:                   {[]int{3, 3, 5}, 500 * time.Millisecond, changing, cutsChoices},
	"a leader of hours":          {[]int{1, 3}, time.Minute, func(*plan) {}, leadsForHours},
	"a key that one master lost": {[]int{3}, 2 * time.Second, breaking, losesKey},
	"a key that stays":           {[]int{3}, 2 * time.Second, breaking, keepsTooLong},
	"a part of the keys":         {[]int{3}, 4 * time.Second, losing, tears},
	"a later version":            {[]int{3}, 2 * time.Second, breaking, writesLater},
	"a look at more":             {[]int{3}, 2 * time.Second, losing, looksFurther},
	"a master used alone":        {[]int{3}, 2 * time.Second, losing, isUsedAlone},
	"a cluster that others know": {[]int{3}, 4 * time.Second, changing, knowsTooLittle},
	"a longer MaxTTL":            {[]int{3}, 500 * time.Millisecond, changing, raises},
	"a message held back":        {[]int{3}, time.Minute, breaking, comesBehind},
	"a reply without end":        {[]int{1, 3}, 2 * time.Second, breaking, announces},
	"a vote that is passed on":   {[]int{3}, 4 * time.Second, breaking, passesAround},
	"a master of others":         {[]int{3}, 500 * time.Millisecond, changing, addsAnother},
	"a list that is forbidden":   {[]int{3}, 2 * time.Second, changing, forbidsItsList},
}

const (
	cutChoices = "choices that are cut"

	// sceneShare is of how many histories one is a scene, and cutShare of how many scenes one has
	// choices that are cut.
	sceneShare, cutShare = 6, 3
)

// newScene draws the plan of a scene; nil if a seed has none.
func newScene(seed uint64) *plan {
	p := &plan{seed: seed, wrong: -1}
	rng := p.rng("scene", 0)
	if rng.IntN(sceneShare) > 0 {
		return nil
	}
	p.scene = cutChoices
	if rng.IntN(cutShare) > 0 {
		p.scene = pick(rng, slices.Sorted(maps.Keys(scenes))...)
	}
	s := scenes[p.scene]
	p.masters, p.maxTTL, p.script = pick(rng, s.masters...), s.maxTTL, s.play
	s.plan(p)
	for i := range 3 {
		c := p.drawClient(i, p.rng("client", uint64(i)))
		if c.nodes = false; !p.lists {
			c.list = rng.Perm(p.masters)
		}
		p.clients = append(p.clients, c)
	}
	return p
}

// breaking has acts break masters, and nothing else does.
func breaking(p *plan) { p.faults = []faultPlan{{what: byActs}} }

// losing has masters forget by acts.
func losing(p *plan) {
	p.forgets = true
	breaking(p)
}

// changing has operators change members, while masters forget by acts.
func changing(p *plan) {
	p.changes, p.operators = true, 1
	losing(p)
}

// ready has all clients know the masters.
func (a *actor) ready() {
	for _, c := range a.clients {
		_ = c.current().locker.Ready(a.base) //nolint:errcheck // the masters are well
	}
	time.Sleep(10 * latency)
}

// withoutClients does something while all clients are away, which begin again then.
func (a *actor) withoutClients(do func()) {
	for _, c := range a.clients {
		c.current().close()
	}
	do()
	for _, c := range a.clients {
		c.replace()
	}
}

// lasting takes a name with the longest TTL, without renewal.
func (a *actor) lasting(life *life, name string) *handle {
	return a.acquireBy(life, a.long(a.mutex(name, false)))
}

// long asks for a lock with the longest TTL, without renewal.
func (a *actor) long(q *request) *request {
	q.asked.ttl = a.plan.maxTTL
	q.asked.opts = append(q.asked.opts, redlock.WithTTL(q.asked.ttl))
	return a.unrenewed(q)
}

// comesBack has a master forget, and get back the marker that it had before, when all others know
// that it forgot. It has no vote for what others hold.
func comesBack(a *actor) {
	a.ready()
	order := a.rng.Perm(a.plan.masters)
	m, other, name := a.masters[order[0]], a.masters[order[1]], "back-"+a.fresh()
	marker, _, _ := m.get(memoryKey)
	register, _, _ := m.get(membersKey)
	heal := other.breaks("mute", 0)
	h := a.lasting(a.clients[0].current(), name)
	heal()
	if h == nil {
		return
	}
	m.breaks("is flushed", 0)
	known := func() bool {
		return !slices.ContainsFunc(order[1:], func(i int) bool {
			told, _, _ := a.masters[i].get(memoryKey)
			return !strings.Contains(told, " lives=")
		})
	}
	for !known() && h.lock.Err() == nil {
		time.Sleep(5 * latency)
	}
	time.Sleep(upTo(a.rng, 20*latency))
	a.note("script", "the marker comes back")
	_, _ = m.do("SET", memoryKey, marker) //nolint:errcheck // it is up
	if a.rng.IntN(2) == 0 {
		_, _ = m.do("SET", membersKey, register) //nolint:errcheck // it is up
	}
	for h.lock.Err() == nil {
		life := a.clients[1+a.rng.IntN(2)].current()
		if a.rng.IntN(2) == 0 {
			life = a.newClient(&a.plan.clients[0]).current()
			defer life.close()
		}
		a.acquireBy(life, a.unrenewed(a.mutex(name, false)))
		time.Sleep(upTo(a.rng, 100*time.Millisecond))
	}
}

// leadsForHours has one lead for longer than masters keep a counter of tokens.
func leadsForHours(a *actor) {
	a.ready()
	ctx, cancel := context.WithCancel(a.base)
	e, err := election.New(a.clients[0].current().locker, "leader", election.WithID("the leader"))
	a.promise("New takes what is valid", err == nil, "election.New: %v", err)
	var leading sync.WaitGroup
	leading.Go(func() { _ = e.Run(ctx, func(ctx context.Context, _ int64) error { <-ctx.Done(); return nil }) }) //nolint:errcheck // it is not what this is about
	time.Sleep(11*time.Minute + upTo(a.rng, 20*time.Minute))
	operator := admin.Of(a.clients[1].current().locker)
	answers, err := operator.AskAll(a.base, []string{"leader"}, nil)
	told := err == nil && len(answers) == 1 && len(answers[0].Terms) > 0 && answers[0].Terms[0].Value == answers[0].Status.Value
	a.promise("an election is told with its terms", told || !e.IsLeader(), "AskAll: %+v, %v", answers, err)
	cancel()
	leading.Wait()
}

// losesKey has one master lose the key of a lock that stands on a bare majority. Another client has
// the lock then, and releases it. The holder is told with its next round.
func losesKey(a *actor) {
	a.ready()
	order := a.rng.Perm(a.plan.masters)
	refusing, losing, name := a.masters[order[0]], a.masters[order[1]], "wild-"+a.fresh()
	_, _ = refusing.do("SET", name, theirs) //nolint:errcheck // it is up
	h := a.lasting(a.clients[0].current(), name)
	if h == nil {
		_, _ = refusing.do("DEL", name) //nolint:errcheck // it is up
		return
	}
	if a.rng.IntN(2) == 0 { // it has the next vote there
		_ = h.lock.Extend(a.base, h.ttl) //nolint:errcheck // a majority extends it
	}
	time.Sleep(5 * latency)
	for _, m := range []master{refusing, losing} {
		_, _ = m.do("DEL", name) //nolint:errcheck // it is up
	}
	next := a.lasting(a.clients[1].current(), name)
	if next == nil {
		return
	}
	a.unlock(next)
	time.Sleep(5 * latency)
	err := h.lock.Extend(a.base, h.ttl)
	a.promise("a holder is told with its next round", is(err, redlock.ErrLost), "%v: %v had the lock meanwhile, Extend: %v", h.hold, next.hold, err)
}
