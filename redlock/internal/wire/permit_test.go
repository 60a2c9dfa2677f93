package wire

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/redquorum/redquorum/internal/look"
	"github.com/redquorum/redquorum/internal/proof/spec"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
)

const (
	permitName = "s"
	permitList = "redquorum:permit:wait:" + permitName
	permitKey  = "redquorum:permits:" + permitName

	permitValue = pairForm + "a"
)

// permitPair has a node of the model of semaphores.
type permitPair struct {
	*pair
	model spec.Semaphore[string]
}

func TestThePermitScriptsDoWhatTheModelDoes(t *testing.T) {
	check(t, func(p *pair) {
		w := &permitPair{pair: p}
		p.t.Repeat(map[string]func(*rapid.T){
			"":        w.compare,
			"take":    w.take,
			"slot":    w.takeSlot,
			"wait":    w.wait,
			"release": w.release,
			"extend":  w.extend,
			"expire":  w.expire,
		})
	})
}

// permits is mostly the same number, so that slots are taken.
func (w *permitPair) permits() int {
	return draw(w.pair, "permits", 2, 2, 2, 2, 1, 3, spec.MaxPermits)
}

func (w *permitPair) slot(permits int) int { return rapid.IntRange(1, permits).Draw(w.t, "slot") }

// answer compares what a script says with what the model does.
func (w *permitPair) answer(what string, slot, other int, reply any, want spec.SlotAnswer, fencing Fencing) {
	vote := quorum.Refused
	if want.Slot != 0 {
		vote = quorum.Granted
	}
	w.same(what, []any{slot, other, Grant.Vote(reply)}, []any{want.Slot, want.Other, vote})
	if want.Slot != 0 {
		w.same("fenced", Fence(reply, 0) != 0, fencing.Life != 0)
	}
}

// takes takes any slot, or only that one.
func (w *permitPair) takes(only bool) {
	value, permits := w.value(), w.permits()
	slot := w.slot(permits)
	take := &Take{
		Semaphore: Semaphore{permitName, permits}, Value: value, TTL: pairTTL, Grace: pairGrace, Slot: slot, Only: only,
	}
	if w.flip("fenced") {
		take.Fencing = w.fencing()
	}
	reply := w.ask(take.Request())
	var want spec.SlotAnswer
	if only {
		want, _ = w.model.TakeSlot(value, permits, slot, pairAlive)
	} else {
		want = w.model.Take(value, permits, slot)
	}
	got := ReadChoice(reply)
	w.answer("take", got.Got, got.Other, reply, want, take.Fencing)
	for slot := 1; slot <= permits && want.Other == 0; slot++ {
		w.same("free", got.IsFree(slot), want.Free>>(slot-1)&1 == 1)
	}
}

func (w *permitPair) take(*rapid.T)     { w.takes(false) }
func (w *permitPair) takeSlot(*rapid.T) { w.takes(true) }

func (w *permitPair) wait(*rapid.T) {
	value, permits := w.value(), w.permits()
	if waiting := w.model.Waiting[:]; !slices.Contains(waiting, value) && !slices.Contains(waiting, "") {
		return // the model has no place for it
	}
	first := w.slot(permits)
	wait := &AwaitPermit{
		Semaphore: Semaphore{permitName, permits}, Value: value, TTL: pairTTL,
		Slot: first, Process: pairProcess(value), Waited: time.Second,
	}
	if w.flip("fenced") {
		wait.Fencing = w.fencing()
	}
	reply := w.ask(wait.Request())
	got, want := ReadPermit(reply), w.model.Wait(value, permits, first)
	w.answer("wait", got.Slot, got.Number, reply, want, wait.Fencing)
	if want.Slot == 0 && want.Other == 0 {
		w.same("time left", got.Left > 0 && got.Left <= pairTTL, true)
		w.same("waits", reply.([]any)[2] == int64(1), want.Waits)
	}
}

func (w *permitPair) release(*rapid.T) {
	value, permits := w.value(), w.permits()
	keep := rapid.IntRange(0, permits).Draw(w.t, "keep")
	process := w.process(value, "leaves")
	if process != "" {
		w.model.Leave(value)
	}
	want, before := quorum.Refused, w.model.Slots
	given := w.model.GiveBack(value, permits, keep, pairAlive)
	for i := range permits {
		switch {
		case given[i] != "":
			want = quorum.Handed
		case i+1 != keep && before[i] == value && want != quorum.Handed:
			want = quorum.Granted
		}
	}
	const grace = pairTTL / 2
	reply := w.ask(Semaphore{permitName, permits}.GiveBack(value, grace, keep, 0, process))
	w.same("release", Released.Vote(reply), want)
	for i := range permits {
		if given[i] != "" {
			w.same("handed over for the grace", w.left(permitName+Slot(i+1)) <= grace.Milliseconds(), true)
		}
	}
}

func (w *permitPair) extend(*rapid.T) {
	value, permits := w.value(), w.permits()
	slot := w.slot(permits)
	e, extend := NewExtension(1), w.model.Extend
	if w.flip("heals") {
		e, extend = Heal(), w.model.Heal
	}
	model := extend(value, permits, slot)
	e.AddPermit(Semaphore{permitName, permits}, slot, value, pairTTL)
	answer := ReadExtended(w.ask(e.Request()))
	vote, absent, taken, err := answer.Next(1)
	w.same("extend", []any{vote, absent, taken, err}, votes[model])
}

func (w *permitPair) expire(*rapid.T) {
	slot := w.slot(spec.MaxPermits)
	w.do("DEL", permitName+"#"+strconv.Itoa(slot))
	w.model.Expire(slot)
}

// compare compares everything that is kept. The number of permits always outlives the slots.
func (w *permitPair) compare(*rapid.T) {
	known, _ := strconv.Atoi("0" + w.get(permitKey)) //nolint:errcheck // a number, or none
	got := spec.Semaphore[string]{Permits: known}
	for i := range got.Slots {
		got.Slots[i] = w.get(permitName + "#" + strconv.Itoa(i+1))
	}
	for i, member := range w.members(permitList) {
		_, got.Waiting[i], _ = strings.Cut(member, ":")
	}
	w.same("state", got, w.model)
	for i, value := range got.Slots {
		if value != "" {
			w.same("the number lives on", w.left(permitKey) > w.left(permitName+Slot(i+1)), true)
		}
	}
}

// take asks a semaphore of two permits for one of them, or for the first only.
func (s *server) take(value string, only int, fencing ...any) (any, error) {
	args := []any{value, pairMillis, pairMillis, 2, 1, only}
	return s.run([]string{permitName}, append(args, fencing...), "permit")
}

// taken is the slot that a take gave.
func (s *server) taken(value string, only int) any {
	s.t.Helper()
	reply, err := s.take(value, only)
	require.NoError(s.t, err)
	return reply.([]any)[0]
}

// A vote must live for the full TTL from the request on, and longer if an extension said so. The
// number of permits outlives all of them.
func TestARequestForAPermitNeverShortensItsKey(t *testing.T) {
	s := newServer(t)
	for only := range 2 {
		s.do("FLUSHALL")
		s.taken(permitValue, only)
		s.do("PEXPIRE", permitName+"#1", 2*pairMillis)
		s.do("PEXPIRE", permitKey, 3*pairMillis)
		s.taken(permitValue, only)
		assert.Greater(t, s.left(permitName+"#1"), int64(pairMillis), "as the extension said")
		assert.Greater(t, s.left(permitKey), int64(2*pairMillis), "as the extension said")
		s.do("PEXPIRE", permitName+"#1", pairMillis/2) // the grace of a hand-over
		s.do("PEXPIRE", permitKey, pairMillis)
		s.taken(permitValue, only)
		assert.Greater(t, s.left(permitName+"#1"), int64(pairMillis/2), "the full TTL")
		assert.InDelta(t, 2*pairMillis, s.left(permitKey), pairMillis/2, "after the same grant")
		s.do("PEXPIRE", permitKey, pairMillis)
		s.taken(pairForm+"b", 0)
		assert.InDelta(t, 2*pairMillis, s.left(permitKey), pairMillis/2, "after another grant")
	}
}

// Whatever sets the end of a slot's key: the number of permits lives for longer, and not for much
// longer. That of no other key is touched.
func TestTheNumberOfPermitsOutlivesEverySlot(t *testing.T) {
	s := newServer(t)
	s.connect(t)
	s.listen(t)
	semaphore := Semaphore{permitName, 2}
	slot := permitName + "#1"
	for name, act := range map[string]func(){
		"take":   func() { s.taken(permitValue, 0) },
		"extend": func() { e := NewExtension(1); e.AddPermit(semaphore, 1, permitValue, time.Hour); s.ask(e.Request()) },
		"heal": func() {
			s.do("DEL", slot)
			e := Heal()
			e.AddPermit(semaphore, 1, permitValue, time.Hour)
			s.ask(e.Request())
		},
		"adopt":             func() { s.ask(Adopt(slot, permitValue, "heir", time.Hour, Fencing{})) },
		"extend as adopter": func() { e := NewExtension(1); e.Add([]string{slot}, permitValue, time.Hour); s.ask(e.Request()) },
		"hand over": func() {
			s.do("ZADD", permitList, 1, "alive:next")
			s.ask(semaphore.GiveBack(permitValue, time.Hour, 0, 1, ""))
			assert.Equal(t, "next", s.get(slot))
		},
	} {
		s.do("FLUSHALL")
		s.taken(permitValue, 0)
		s.do("PEXPIRE", permitKey, pairMillis+1)
		act()
		slotLeft := s.left(slot)
		assert.Positive(t, slotLeft, name)
		assert.InDelta(t, 2*slotLeft, s.left(permitKey), float64(pairMillis), name)
		s.do("PEXPIRE", permitKey, 100*time.Hour.Milliseconds())
		s.taken(s.get(slot), 0)
		assert.Greater(t, s.left(permitKey), 90*time.Hour.Milliseconds(), "%s: it does not end earlier", name)
	}
	s.do("FLUSHALL")
	s.do("SET", "a", "mine", "PX", pairMillis)
	s.do("SET", "b#1", "mine", "PX", pairMillis)
	s.do("SET", "redquorum:permits:a", 2, "PX", pairMillis)
	e := NewExtension(2)
	e.Add([]string{"a", "b#1"}, "mine", time.Hour)
	s.ask(e.Request())
	assert.LessOrEqual(t, s.left("redquorum:permits:a"), int64(pairMillis))
	assert.Equal(t, int64(3), s.do("DBSIZE"))
}

// So names that are used once leave nothing, and neither does a request that is refused elsewhere.
func TestTheNumberOfPermitsGoesWithTheLastOfThem(t *testing.T) {
	s := newServer(t)
	s.connect(t)
	semaphore := Semaphore{permitName, 2}
	give := func(value string) { s.ask(semaphore.GiveBack(value, time.Minute, 0, 0, "")) }
	first, second := pairForm+"a", pairForm+"b"
	s.taken(first, 0)
	s.taken(second, 0)
	give("nobody's")
	give(first)
	assert.Equal(t, "2", s.get(permitKey), "one is held")
	give(second)
	assert.Equal(t, int64(0), s.do("DBSIZE"))
	s.do("SET", permitKey, 3)
	s.do("SET", permitName+"#1", first)
	give(first)
	assert.Equal(t, "3", s.get(permitKey), "a slot of that number may be taken")
}

func TestAPermitLeavesOtherPeoplesKeysAlone(t *testing.T) {
	s := newServer(t)
	s.do("RPUSH", permitName+"#1", "x")
	assert.Equal(t, int64(2), s.taken(permitValue, 0), "a slot of another type is not free")
	assert.Equal(t, "list", s.do("TYPE", permitName+"#1"))

	for _, text := range []string{"x", "0", "-1", "2000", "nan", ""} {
		s.do("FLUSHALL")
		s.do("SET", permitKey, text)
		s.do("SET", permitName+"#1000", "x")
		_, err := s.take(permitValue, 0)
		require.ErrorContains(t, err, "number of permits", "%q changes only while no slot is taken", text)
		s.do("DEL", permitName+"#1000")
		assert.Equal(t, int64(1), s.taken(permitValue, 0), "%q", text)
		assert.Equal(t, "2", s.get(permitKey))
	}
}

func TestAPermitThatFailsLeavesNoKeyBehind(t *testing.T) {
	s := newServer(t)
	for command, fencing := range map[string][]any{"time": {time.Now().UnixMicro(), pairLife.Milliseconds()}, "pexpire": nil} {
		for only := range 2 {
			fails := func() {
				s.as("-"+command, func() {
					_, err := s.take(permitValue, only, fencing...)
					require.Error(t, err, command)
				})
			}
			s.do("FLUSHALL")
			s.do("SET", permitKey, 2, "PX", pairMillis) // which must live for longer
			fails()
			assert.Equal(t, int64(0), s.do("EXISTS", permitName+"#1", permitName+"#2"), command)
			s.taken(permitValue, only)
			s.do("PEXPIRE", permitKey, pairMillis)
			fails()
			assert.Equal(t, int64(1), s.do("EXISTS", permitName+"#1"), "%s: a vote that was counted stays", command)
		}
	}
}

func (s *server) inspectPermits() look.Permits {
	s.t.Helper()
	reply := s.onA(nil, "permit_inspect")
	require.True(s.t, InspectPermits("a").Accept(reply))
	p, ok := ReadPermits(reply)
	require.True(s.t, ok, "%v", reply)
	return p
}

func TestASemaphoreIsToldUpToItsLimits(t *testing.T) {
	s := newServer(t)
	s.do("SET", "redquorum:permits:a", "3")
	s.do("SET", "a#1", "value|owner", "PX", 60000)
	s.do("SET", "redquorum:fence:a#2", "8")
	s.do("SET", "a#3", "for ever")
	s.do("SET", "a#4", "beyond the number")
	for i := range 40 {
		s.do("ZADD", "redquorum:permit:wait:a", 10+i, fmt.Sprint("p:w|", i))
	}
	p := s.inspectPermits()
	require.Len(t, p.Slots, 3)
	assert.InDelta(t, time.Minute, p.Slots[0].TTL, float64(30*time.Second))
	p.Slots[0].TTL = 0
	assert.Equal(t, []look.Inspection{{Held: true, Value: "value|owner"}, {Fence: 8}, {Held: true, Value: "for ever", TTL: -time.Millisecond}}, p.Slots)
	assert.Equal(t, 40, p.Waiting)
	require.Len(t, p.Waiters, 16)
	assert.Equal(t, "15", p.Waiters[15])
	s.do("SET", "redquorum:permits:a", MaxPermits)
	assert.Len(t, s.inspectPermits().Slots, MaxPermits)
}

func TestASemaphoreIsToldWhateverOthersWrote(t *testing.T) {
	s := newServer(t)
	for _, key := range []string{"a", "redquorum:permits:a", "redquorum:permit:wait:a", "a#1", "redquorum:fence:a#1"} {
		for _, what := range append(foreign, []any{"SET", "0"}, []any{"SET", "1025"}, []any{"SET", "2.5"}, []any{"SET", "0x2"}) {
			s.do("FLUSHALL")
			s.do("SET", "redquorum:permits:a", "2")
			s.spoil(key, what, false)
			before, slots := s.do("DUMP", key), 2
			switch {
			case key == "redquorum:permits:a" && what[1] == "1024": // as good as a number
				slots = 1024
			case key == "redquorum:permits:a":
				slots = 0
			}
			assert.Len(t, s.inspectPermits().Slots, slots, "%s %v", key, what)
			assert.Equal(t, before, s.do("DUMP", key))
		}
	}
}
