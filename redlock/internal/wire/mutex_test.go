package wire

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/internal/proof/spec"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
)

// mutexPair has a node of the model in which violations are searched for.
type mutexPair struct {
	*pair
	model *spec.Node
}

var pairNames = []string{"x", "y"}

func TestScriptsDoWhatTheModelDoes(t *testing.T) {
	check(t, func(p *pair) {
		w := &mutexPair{p, spec.NewNode()}
		p.t.Repeat(map[string]func(*rapid.T){
			"":        w.compare,
			"acquire": w.acquire,
			"wait":    w.wait,
			"release": w.release,
			"raise":   w.raise,
			"mend":    w.mend,
			"spoil":   w.spoil,
			"adopt":   w.adopt,
			"any":     w.takeAny,
			"expire":  w.expire,
		})
	})
}

func (w *mutexPair) name() string { return draw(w.pair, "name", pairNames...) }

func (w *mutexPair) names() []string {
	return draw(w.pair, "names", []string{"x"}, []string{"y"}, []string{"x", "y"}, []string{"y", "x"})
}

// ask sends a request at the time of the model.
func (w *mutexPair) ask(r pipeline.Request) any {
	w.model.Now = w.now()
	return w.pair.ask(r)
}

// token compares what a script and the model granted.
func (w *mutexPair) token(what string, names []string, fencing Fencing, reply any, number int64, granted bool) {
	w.verdict(what, Grant, reply, granted)
	if !granted {
		return
	}
	got := Fence(reply, fencing.Wall)
	if number-w.model.Now > spec.Limit && got >= number && got-number < 1_000_000 {
		for _, name := range names { // it started again, by the server's clock
			w.model.Entry(name).Fence = got
		}
		return
	}
	w.same(what, got, number)
}

func (w *mutexPair) acquire(*rapid.T) {
	names, value, fencing := w.names(), w.value(), w.fencing()
	reply := w.ask(Acquire(&Claim{}, names, value, pairTTL, fencing))
	number, granted := w.model.Acquire(names, value, fencing.Wall)
	w.token("acquire", names, fencing, reply, number, granted)
}

func (w *mutexPair) wait(*rapid.T) {
	names, value, fencing := []string{w.name()}, w.value(), w.fencing()
	wait := Wait{Keys: names, Value: value, TTL: pairTTL, Grace: pairGrace, Process: pairProcess(value), Fencing: fencing}
	reply := w.ask(wait.Request())
	number, granted := w.model.Coordinator(names[0], value, fencing.Wall)
	w.token("wait", names, fencing, reply, number, granted)
	if got := ReadWait(reply); !granted {
		w.same("taken", []any{got.Taken, got.Left > 0, got.Holder}, []any{0, true, HolderOurs})
	}
}

func (w *mutexPair) release(*rapid.T) {
	names, value := w.names(), w.value()
	process := w.process(value, "leaves")
	reply := w.ask(Release(&Claim{}, names, value, pairGrace, process))
	var votes []quorum.Vote
	for _, name := range names {
		do := w.model.Entry(name).Release
		if process != "" {
			do = w.model.Entry(name).Leave
		}
		votes = append(votes, outcome(do(value, 0, pairAlive), w.model.Entry(name)))
	}
	w.same("release", Released.Vote(reply), together(votes))
}

// together is the vote of a release for its keys.
func together(votes []quorum.Vote) quorum.Vote {
	for _, vote := range []quorum.Vote{quorum.Refused, quorum.Handed} {
		if slices.Contains(votes, vote) {
			return vote
		}
	}
	return quorum.Granted
}

func (w *mutexPair) raise(*rapid.T) {
	names, value := w.names(), w.value()
	to := w.model.Entry(names[0]).Fence + rapid.Int64Range(-1, 2).Draw(w.t, "above")
	if to <= 2 {
		w.t.Skip("no counter yet")
	}
	// Or far from the limit up to which the node follows, since its clock goes on meanwhile.
	life := pairLife.Microseconds()
	to += draw(w.pair, "far", 0, 0, 0, 10_000_000, 100_000_000, life, 2*life)
	reply := w.ask(Raise(names, value, to, pairLife))
	w.same("raise", Raised.Vote(reply) == quorum.Granted, w.model.Raise(names, value, to, life))
}

func (w *mutexPair) mend(*rapid.T) {
	names, value := w.names(), w.value()
	given := w.model.Entry(names[0]).Fence + rapid.Int64Range(0, 1).Draw(w.t, "above")
	if given <= 0 {
		w.t.Skip("no counter yet, or none any more")
	}
	to := w.timestamp() + draw[int64](w.pair, "to", 0, 5_000_000, 60_000_000)
	reply := w.ask(Mend(names, value, given, to, pairLife))
	w.verdict("mend", Yes, reply, w.model.Mend(names, value, given, to))
}

// spoil writes something that is no counter, or a counter that is far ahead.
func (w *mutexPair) spoil(*rapid.T) {
	name := w.name()
	entry, counter := w.model.Entry(name), fenceKey+name
	entry.Fence = spec.Unreadable
	w.do("DEL", counter)
	switch rapid.IntRange(0, 3).Draw(w.t, "what") {
	case 0:
		w.do("SET", counter, draw(w.pair, "text", "", "x", "nan", "inf", "9007199254740990", "1e300"))
	case 1:
		w.do("RPUSH", counter, "1")
	case 2:
		w.do("ZADD", counter, 1, "x")
	case 3:
		entry.Fence = w.timestamp() + 3_600_000_000
		w.do("SET", counter, entry.Fence)
	}
}

func (w *mutexPair) adopt(*rapid.T) {
	names, old, value, fencing := []string{w.name()}, w.value(), w.value(), w.fencing()
	reply := w.ask(Adopt(names[0], old, value, pairTTL, fencing))
	number, granted := w.model.Adopt(names, old, value, fencing.Wall)
	w.token("adopt", names, fencing, reply, number, granted)
}

// takeAny takes one of several names: the one that it has, else the first that is free. Or it takes
// a certain one, and gives up the others.
func (w *mutexPair) takeAny(*rapid.T) {
	names, value, fencing := w.names(), w.value(), w.fencing()
	only := rapid.IntRange(0, len(names)).Draw(w.t, "only")
	reply := w.ask((&TakeAny{Keys: names, Value: value, TTL: pairTTL, Grace: pairGrace, Only: only, Fencing: fencing}).Request())
	at := only
	for i, name := range names {
		if e := w.model.Entry(name); e.Key == value && only == 0 {
			at = i + 1
		} else if e.Key == value && i+1 != only {
			e.Release(value, 0, pairAlive)
		}
	}
	if at == 0 {
		at = 1 + slices.IndexFunc(names, func(name string) bool { return w.model.Entry(name).Absent() })
	}
	var taken []string
	var number int64
	granted := false
	if at > 0 {
		taken = names[at-1 : at]
		if number, granted = w.model.Adopt(taken, value, value, fencing.Wall); !granted {
			number, granted = w.model.Acquire(taken, value, fencing.Wall)
		}
	}
	w.token("take any", taken, fencing, reply, number, granted)
	if !granted {
		at = 0
	}
	got := ReadChoice(reply)
	w.same("got", got.Got, at)
	for i, name := range names {
		w.same("free", got.IsFree(i+1), w.model.Entry(name).Absent())
	}
}

func (w *mutexPair) expire(*rapid.T) {
	name := w.name()
	w.do("DEL", name)
	w.model.Entry(name).Drop()
}

// compare compares everything that is kept.
func (w *mutexPair) compare(*rapid.T) {
	for _, name := range pairNames {
		entry := w.model.Entry(name)
		counter := cmp.Or(w.get(fenceKey+name), "0")
		if entry.Fence == spec.Unreadable {
			counter = fmt.Sprint(spec.Unreadable)
		}
		w.same(name, fmt.Sprintf("%s %s %q", w.get(name), counter, w.members(waitKey+name)),
			fmt.Sprintf("%s %d %q", entry.Key, entry.Fence, places(entry.Waiting)))
	}
}

// retained is what a node keeps for a name in the model of retain.lua, with when it ends and the
// note of an adoption. Times are in seconds: -1 for no end.
type retained struct {
	spec.Entry[string]
	ends    int
	adopter string // the value with a note; empty for none
	note    string // the value that it is being adopted from; empty for no note
	noted   int
}

// adopted reports whether the key is being adopted from a value.
func (e *retained) adopted(value string) bool {
	return !e.Absent() && e.Key == e.adopter && e.note == value
}

// release is a plain release, which also ends an adoption.
func (e *retained) release(value string) quorum.Vote {
	vote := outcome(e.Release(value, 0, pairAlive), &e.Entry)
	if vote == quorum.Handed {
		e.ends = int(pairGrace.Seconds())
	} else if vote == quorum.Refused && e.adopted(value) {
		e.note = ""
	}
	return vote
}

// retain makes what the caller holds, or would get back, end with the rest, and never later.
func (e *retained) retain(value string, rest int) quorum.Vote {
	shorter := func(ends int) int {
		if ends < 0 {
			return rest
		}
		return min(ends, rest)
	}
	switch {
	case rest <= 0:
		return e.release(value)
	case e.Key == value:
		e.ends = shorter(e.ends)
		return quorum.Granted
	case e.adopted(value):
		e.noted = shorter(e.noted)
	}
	return quorum.Refused
}

// newRetained gives a name a holder or none, an adoption or none, and waiters.
func newRetained(p *pair, name string) *retained {
	e := &retained{Entry: spec.Entry[string]{Marker: Marker}}
	set := func(key, value string) (ends int) {
		p.do("SET", key, value)
		if ends = draw(p, "ends", -1, 100, 200, 300); ends >= 0 {
			p.do("EXPIRE", key, ends)
		}
		return ends
	}
	if rapid.IntRange(0, 9).Draw(p.t, "held") > 0 {
		e.Key = draw(p, "holder", pairValues[:2]...)
		e.ends = set(name, e.Key)
		if p.flip("adopted") {
			e.note, e.adopter = p.value(), e.Key
			e.noted = set(adoptionNote+name+":"+e.adopter, e.note)
		}
	}
	for i := range rapid.IntRange(0, 3).Draw(p.t, "waiters") {
		if waiter := (spec.Waiter[string]{Value: p.value()}); !slices.Contains(e.Waiting, waiter) {
			e.Waiting = append(e.Waiting, waiter)
			p.do("ZADD", waitKey+name, i, place(waiter.Value))
			p.do("SET", "redquorum:waits:"+name, "")
		}
	}
	return e
}

// compare compares what the server has under a name with what the model has.
func (e *retained) compare(p *pair, name string) {
	p.same("waiting for "+name, p.members(waitKey+name), places(e.Waiting))
	for _, key := range []struct {
		name, value string
		ends        int
	}{{name, e.Key, e.ends}, {adoptionNote + name + ":" + e.adopter, e.note, e.noted}} {
		ends := int(p.left(key.name)) // -1: it does not end
		if ends >= 0 {
			ends = (ends + 9999) / 10_000 * 10 // time passes
		}
		p.same(key.name, p.get(key.name), key.value)
		if key.value != "" {
			p.same("the end of "+key.name, ends, key.ends)
		}
	}
}

// The rest is the end of every key that the caller holds, unless the key ends before.
func TestARetainDoesWhatItsModelDoes(t *testing.T) {
	check(t, func(p *pair) {
		names := draw(p, "names", []string{"x"}, []string{"x"}, []string{"x", "y"}, []string{"z", "x", "y"})
		model := map[string]*retained{}
		for _, name := range names {
			model[name] = newRetained(p, name)
		}
		for range rapid.IntRange(1, 3).Draw(p.t, "times") { // late, and again
			value, rest := draw(p, "caller", pairValues[:2]...), draw(p, "rest", 0, 50, 150, 250)
			process := p.process(value, "leaves")
			reply := p.eval(names, []any{value, pairGrace.Milliseconds(), process, "", rest * 1000}, retains...)
			var votes []quorum.Vote
			for _, name := range names {
				e := model[name]
				if process != "" {
					e.Forget(value)
				}
				votes = append(votes, e.retain(value, rest))
			}
			p.same("retain", Released.Vote(reply), together(votes))
			for _, name := range names {
				model[name].compare(p, name)
			}
		}
	})
}

// A key was handed to a waiter, and somebody who knows its value has extended it since.
func TestTakingAKeyDoesNotShortenIt(t *testing.T) {
	s := newServer(t)
	mine := pairForm + "mine"
	for file, args := range map[string][]any{
		"wait":     {mine, 60_000, 50, 1, "", 0, 100, ""},
		"announce": {mine, 60_000, 3000},
		"join":     {pairForm + "set", 60_000, mine},
		"any":      {mine, 60_000, 50, 0},
	} {
		for extended, least := range map[int]int64{30_000: 30_000, 600_000: 60_000} {
			s.do("FLUSHALL")
			s.do("SET", "a", mine, "PX", 30_000)
			require.Equal(t, int64(1), s.onA([]any{mine, extended}, "keep"))
			s.onA(args, file)
			assert.Greater(t, s.left("a"), least, "%s, extended to %d ms", file, extended)
		}
	}
}
