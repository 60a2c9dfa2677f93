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

	"github.com/redquorum/redquorum/internal/proof/spec"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
)

const (
	permitName = "s"
	permitLife = 48 * time.Hour
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
		w.same("fenced", Fence(reply) != 0, fencing.Life != 0)
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
	given := w.model.Release(value, permits, keep, pairAlive)
	for i := range permits {
		switch {
		case given[i] != "":
			want = quorum.Handed
		case i+1 != keep && before[i] == value && want != quorum.Handed:
			want = quorum.Granted
		}
	}
	const grace = pairTTL / 2
	reply := w.ask(Semaphore{permitName, permits}.GiveBack(value, grace, keep, process))
	w.same("release", Released.Vote(reply), want)
	for i := range permits {
		if given[i] != "" {
			w.same("handed over for the grace", w.left(permitName+Slot(i+1)) <= grace.Milliseconds(), true)
		}
	}
}

// extend is extend.lua with the two pairs of a permit.
func (w *permitPair) extend(*rapid.T) {
	value, permits := w.value(), w.permits()
	slot := w.slot(permits)
	ofSlot, ofPermits := w.model.Extend(value, permits, slot)
	e := NewExtension(1)
	e.AddPermit(permitName+Slot(slot), Semaphore{permitName, permits}, value, pairTTL)
	answer := ReadExtended(w.ask(e.Request()))
	vote, touched, err := answer.NextPermit()
	want := quorum.Refused
	if ofSlot == 1 && ofPermits == 1 {
		want = quorum.Granted
	}
	w.same("extend", []any{vote, touched, err}, []any{want, ofSlot != 0, nil})
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
	if known != 0 {
		w.same("the number lives on", w.left(permitKey) > (permitLife-time.Hour).Milliseconds(), true)
	}
}

// take asks a semaphore of two permits for one of them, or for the first only.
func (s *server) take(value string, only int, fencing ...any) (any, error) {
	args := []any{value, pairMillis, pairMillis, 2, permitLife.Milliseconds(), 1, only}
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
		s.do("PEXPIRE", permitKey, pairMillis)
		s.taken(permitValue, only)
		assert.Greater(t, s.left(permitName+"#1"), int64(pairMillis), "as the extension said")
		assert.Greater(t, s.left(permitKey), (24 * time.Hour).Milliseconds(), "after the same grant")
		s.do("PEXPIRE", permitName+"#1", pairMillis/2) // the grace of a hand-over
		s.taken(permitValue, only)
		assert.Greater(t, s.left(permitName+"#1"), int64(pairMillis/2), "the full TTL")
		s.do("PEXPIRE", permitKey, pairMillis)
		s.taken(pairForm+"b", 0)
		assert.Greater(t, s.left(permitKey), (24 * time.Hour).Milliseconds(), "after another grant")
	}
}

func TestAPermitLeavesOtherPeoplesKeysAlone(t *testing.T) {
	s := newServer(t)
	s.do("RPUSH", permitName+"#1", "x")
	assert.Equal(t, int64(2), s.taken(permitValue, 0), "a slot of another type is taken")
	assert.Equal(t, int64(0), s.taken(permitValue, 1))
	assert.Equal(t, "list", s.do("TYPE", permitName+"#1"))

	for _, text := range []string{"x", "0", "-1", "2000", "nan", ""} {
		s.do("FLUSHALL")
		s.do("SET", permitKey, text)
		s.do("SET", permitName+"#1000", "x")
		assert.Equal(t, int64(-1), s.taken(permitValue, 0), "%q changes only while no slot is taken", text)
		s.do("DEL", permitName+"#1000")
		assert.Equal(t, int64(1), s.taken(permitValue, 0), "%q", text)
		assert.Equal(t, "2", s.get(permitKey))
	}

	s.do("FLUSHALL")
	s.do("RPUSH", permitKey, "2")
	_, err := s.take(permitValue, 0)
	require.ErrorContains(t, err, "WRONGTYPE")
	assert.Equal(t, int64(0), s.do("EXISTS", permitName+"#1"))
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
			fails()
			assert.Equal(t, int64(0), s.do("EXISTS", permitName+"#1", permitName+"#2"), command)
			s.taken(permitValue, only)
			fails()
			assert.Equal(t, int64(1), s.do("EXISTS", permitName+"#1"), "%s: a vote that was counted stays", command)
		}
	}
}

func (s *server) inspectPermits() Permits {
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
	assert.Equal(t, []Inspection{{Held: true, Value: "value|owner"}, {Fence: 8}, {Held: true, Value: "for ever", TTL: -time.Millisecond}}, p.Slots)
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
			if key == "redquorum:permits:a" {
				slots = 0
			}
			assert.Len(t, s.inspectPermits().Slots, slots, "%s %v", key, what)
			assert.Equal(t, before, s.do("DUMP", key))
		}
	}
}
