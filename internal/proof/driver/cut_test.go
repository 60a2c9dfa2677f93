package driver_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redquorum/redquorum/admin"
)

// cutting cuts operators off in the middle of what they do.
type cutting struct {
	*actor
	before [][2]string // by master: the marker and the register at first

	mu       sync.Mutex // guards the fields below
	off      []func()   // by master: ends the fault that cuts it off; nil if it is not
	at       point
	drops    int   // the master that goes away when another one has promised; -1: none
	accepted []int // the masters that accepted the last change
	knows    int   // the one of them that was told it, or accepted it first; -1: none
}

// point is when an operator is cut off.
type point uint8

const (
	never       point = iota
	whenOneHas        // accepted its change
	whenMostDo        // accept it: those that have not are cut off, and the rest at the next point
	whenOneIs         // told its change
	wasCutOff         // before
	untilAnyHas = 5 * latency
)

// cutsChoices has one operator after the other die when one master has accepted its change, or was
// told it. That master is away when the next one makes another change, and some of the others have
// forgotten, or have got back what they had before.
func cutsChoices(a *actor) {
	a.ready()
	c := a.cutting()
	for i := range 3 {
		c.round(i)
	}
	c.heals(-1)
	time.Sleep(time.Second)
}

// cutting returns what cuts operators off from now on.
func (a *actor) cutting() *cutting {
	c := &cutting{actor: a, off: make([]func(), len(a.masters)), knows: -1, drops: -1}
	for _, m := range a.masters {
		marker, _, _ := m.get(memoryKey)
		register, _, _ := m.get(membersKey)
		c.before = append(c.before, [2]string{marker, register})
	}
	a.run.mu.Lock()
	a.heard = c.hears
	a.run.mu.Unlock()
	return c
}

// hears is told that a master has another register, or another marker.
func (c *cutting) hears(i int, key, before, now string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i >= c.plan.masters {
		return
	}
	if c.drops >= 0 && c.drops != i && key == membersKey {
		c.cutsOff(c.drops)
		c.drops = -1
	}
	accepts := key == membersKey && acceptedIn(now) != "-" && acceptedIn(now) != acceptedIn(before)
	if accepts && !slices.Contains(c.accepted, i) {
		c.accepted = append(c.accepted, i)
	}
	switch {
	case c.at == whenMostDo && len(c.accepted) > c.plan.masters/2:
		c.at = whenOneIs
		for other := range c.masters {
			if !slices.Contains(c.accepted, other) {
				c.cutsOff(other)
			}
		}
	case c.at == whenOneHas && accepts, c.at == whenOneIs && key == memoryKey && versionIn(now) > versionIn(before):
		c.at, c.knows = wasCutOff, i
		for other := range c.masters {
			c.cutsOff(other)
		}
	}
}

// acceptedIn returns what a register has as accepted; "-" for nothing.
func acceptedIn(register string) string {
	if lines := strings.Split(register, "\n"); len(lines) > 3 {
		return lines[3]
	}
	return "-"
}

// cutsOff must be called with mu held.
func (c *cutting) cutsOff(i int) {
	if c.off[i] == nil {
		c.off[i] = c.masters[i].breaks("mute", 0)
	}
}

// heals ends all cuts but that of one master, which it makes; -1: of none.
func (c *cutting) heals(away int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, heal := range c.off {
		if heal != nil && i != away {
			heal()
			c.off[i] = nil
		}
	}
	if away >= 0 {
		c.cutsOff(away)
	}
}

// round lets an operator begin a change, and cuts it off.
func (c *cutting) round(n int) {
	last, away := c.knows, -1
	switch luck := c.rng.IntN(8); {
	case last >= 0 && luck > 0:
		away = last
	case luck < 3:
		away = c.rng.IntN(c.plan.masters)
	}
	c.heals(away)
	back := func() {}
	if last >= 0 {
		back = c.forget(away, last)
	}
	l := c.newClient(&c.plan.clients[0]).current()
	defer l.close()
	ctx, cancel := context.WithTimeout(c.base, 4*time.Second)
	defer cancel()
	m, err := admin.Of(l.locker).Cluster().Members(ctx)
	c.agree(&m)
	gone := slices.IndexFunc(m.Members, func(m admin.Member) bool { return away >= 0 && strings.HasSuffix(m.Endpoint, c.endpoints[away]) })
	c.note("script", "%d is away, Members: %v", away, err)
	back()
	c.mu.Lock()
	c.at, c.accepted, c.knows = pick(c.rng, never, whenOneHas, whenMostDo, whenMostDo, whenOneIs), nil, -1
	if n > 0 && c.rng.IntN(3) == 0 {
		c.drops = c.rng.IntN(c.plan.masters)
	}
	c.mu.Unlock()
	changed := make(chan error, 1)
	go func() {
		if gone >= 0 { // it is all that can be changed
			changed <- admin.Of(l.locker).Cluster().Remove(ctx, m.Members[gone].ID)
			return
		}
		changed <- admin.Of(l.locker).Cluster().SetMaxTTL(ctx, c.plan.maxTTL+time.Duration(n+1)*slightly)
	}()
	cut := false
	for !cut && ctx.Err() == nil && len(changed) == 0 {
		time.Sleep(untilAnyHas)
		c.mu.Lock()
		cut = c.at == wasCutOff
		c.mu.Unlock()
	}
	cancel()
	err = <-changed
	c.mu.Lock()
	c.at, c.drops = never, -1
	c.note("script", "the change: %v; %v accepted it, %d knows most", err, c.accepted, c.knows)
	c.mu.Unlock()
	time.Sleep(upTo(c.rng, c.plan.maxTTL/4))
}

// forget has masters forget, but for the one that is away, and for the one that knows most: what
// all have forgotten that knew it counts no more. Those that accepted the last change do, one after
// the other, or any one, which is what it was at first when back is called.
func (c *cutting) forget(away, knows int) (back func()) {
	one := c.rng.IntN(c.plan.masters)
	switch luck := c.rng.IntN(4); {
	case luck == 0:
		for _, i := range c.accepted {
			if i != away && i != knows {
				c.forgets(i)
				time.Sleep(5500 * time.Millisecond) // a quarantine, and a look
			}
		}
	case luck == 1 && one != away && one != knows:
		c.forgets(one)
		time.Sleep(2 * time.Second) // the others know of it
		return func() {
			_, _ = c.masters[one].do("SET", memoryKey, c.before[one][0])  //nolint:errcheck // it is up
			_, _ = c.masters[one].do("SET", membersKey, c.before[one][1]) //nolint:errcheck // it is up
		}
	}
	return func() {}
}

// forgets has a master forget, which is noticed.
func (c *cutting) forgets(i int) {
	c.note("script", "%d forgets", i)
	c.masters[i].breaks("is flushed", 0)
	c.acquireBy(c.clients[1].current(), c.unrenewed(c.mutex("cut-"+c.fresh(), false)))
}
