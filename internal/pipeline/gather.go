package pipeline

import (
	"hash/maphash"
	"slices"

	"github.com/redquorum/redquorum/clock"
)

// gathering puts the calls that are about to be written into the order in which they are. Calls of
// a script that can be run together are held back in a group, until the last call has been taken,
// the group is full, or another call for one of its keys follows. So a call may be delayed behind
// calls for other keys, and the calls for each key stay in their order, which is all that S6, S8
// and S29 (docs/safety.md) need. Calls for several keys, and those whose key is not known, let
// nothing pass.
type gathering struct {
	out    []outgoing
	groups []*group // open
	spare  []*group
	held   int // calls in groups
}

// group is calls of one script, all by its digest or all in full.
type group struct {
	script *Script
	eval   bool
	calls  []Call
	keys   keySet
}

// outgoing is a command on its way to the network, or one of several that are sent together.
type outgoing struct {
	request  *Request
	script   *Script // to run; nil for a plain command
	eval     bool    // send the text of script
	together int     // this many, from this one on, are one command; 0 behind the first of them
	proof    bool    // the command reads the memory key
	left     int64   // milliseconds; the last argument of a timed script
}

// plain returns a command that no call has asked for.
func plain(words Words) outgoing { return outgoing{request: &Request{Words: words}, together: 1} }

// placeLocked adds a call.
func (c *conn) placeLocked(call Call) {
	g, r := &c.gathering, call.Request
	batches := r.batches() && !call.alone
	if !batches && len(g.groups) == 0 {
		c.takeLocked(call)
		return
	}
	var own *group
	hash, passes := maphash.String(keySeed, r.Key), r.Key != "" && r.Words.keys <= 1
	for i := 0; i < len(g.groups); {
		open := g.groups[i]
		switch {
		case !passes || open.keys.has(hash):
			c.closeLocked(i)
			continue
		case batches && open.script == r.Script && open.eval == call.eval:
			own = open
		}
		i++
	}
	if !batches {
		c.takeLocked(call)
		return
	}
	if own == nil {
		own = g.open(r.Script, call.eval)
	}
	own.calls = append(own.calls, call)
	own.keys.add(hash)
	if g.held++; len(own.calls) == r.Script.batch.most {
		c.closeLocked(slices.Index(g.groups, own))
	}
}

func (g *gathering) open(script *Script, eval bool) *group {
	var opened *group
	if last := len(g.spare) - 1; last >= 0 {
		opened, g.spare = g.spare[last], g.spare[:last]
	} else {
		opened = &group{}
	}
	opened.script, opened.eval = script, eval
	g.groups = append(g.groups, opened)
	return opened
}

// closeLocked adds the calls of an open group.
func (c *conn) closeLocked(i int) {
	g := &c.gathering
	closed := g.groups[i]
	g.groups = slices.Delete(g.groups, i, i+1)
	g.held -= len(closed.calls)
	if len(closed.calls) == 1 {
		c.takeLocked(closed.calls[0])
	} else {
		c.takeTogetherLocked(closed)
	}
	clear(closed.calls)
	closed.calls, closed.keys = closed.calls[:0], keySet{}
	g.spare = append(g.spare, closed)
}

// takeLocked adds a call as a command of its own.
func (c *conn) takeLocked(call Call) {
	script := call.Request.Script
	if script != nil && !call.eval {
		call.eval = c.loadLocked(script, call.Request.Deadline)
	}
	call.together = 1
	c.pending.push(call)
	c.gathering.out = append(c.gathering.out, outgoing{request: call.Request, script: script, eval: call.eval, together: 1})
}

// takeTogetherLocked adds several calls as one command. The first of them says so.
func (c *conn) takeTogetherLocked(g *group) {
	together, eval := g.script.batch.script, g.eval
	if !eval {
		eval = c.loadLocked(together, g.calls[0].Request.Deadline)
	}
	for i, call := range g.calls {
		call.eval, call.together = eval, 0
		o := outgoing{request: call.Request, script: together, eval: eval}
		if i == 0 {
			call.together, o.together = int16(len(g.calls)), len(g.calls)
		}
		c.pending.push(call)
		c.gathering.out = append(c.gathering.out, o)
	}
}

// loadLocked makes the server know a script, and reports whether the first call must do so.
func (c *conn) loadLocked(script *Script, deadline clock.Instant) (eval bool) {
	if slices.Contains(c.scripts, script) {
		return false
	}
	c.scripts = append(c.scripts, script)
	if c.mayLoad {
		c.takeLocked(script.loading(deadline))
	}
	return !c.mayLoad // EVAL loads the script, too
}

// keySet has the keys of a group. It may have a key that was not added: then a group is closed
// earlier than it must be, which happens to one call in 60 or fewer.
type keySet [64]uint64

var keySeed = maphash.MakeSeed()

func (s *keySet) add(hash uint64)      { s[hash>>6%64] |= 1 << (hash % 64) }
func (s *keySet) has(hash uint64) bool { return s[hash>>6%64]&(1<<(hash%64)) != 0 }
