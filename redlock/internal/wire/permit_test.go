package wire

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/internal/proof/search/permit"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
)

// permitPair is a server that runs the scripts of a semaphore, and a node of its model. Both get
// the same commands, and must answer the same and keep the same.
type permitPair struct {
	*pair
	model permit.Entry[string]
}

const (
	permitName = "s"
	permitLife = 48 * time.Hour
	permitList = "redquorum:permit:wait:" + permitName
	permitKey  = "redquorum:permits:" + permitName
)

func TestThePermitScriptsDoWhatTheModelDoes(t *testing.T) {
	server := redistest.StartOne(t)
	conn, err := redis.Dial("tcp", server.Addr())
	require.NoError(t, err)
	defer conn.Close()
	listen(t, server)
	rapid.Check(t, func(t *rapid.T) {
		w := &permitPair{pair: &pair{t: t, conn: conn}}
		w.do("FLUSHALL")
		t.Repeat(map[string]func(*rapid.T){
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

// eval runs a script with these arguments, which must be those of the request.
func (w *permitPair) eval(request pipeline.Request, sources []string, args ...any) any {
	if request.Words != pipeline.On([]string{permitName}, args...) || request.Key != permitName {
		w.t.Fatalf("the request is %+v, not %v", request.Words, args)
	}
	reply := w.do("EVAL", append([]any{bare(sources), 1, permitName}, args...)...)
	if !request.Accept(reply) {
		w.t.Fatalf("the request does not accept %v", reply)
	}
	return reply
}

// permits is mostly the same number, so that slots are taken.
func (w *permitPair) permits() int {
	return rapid.SampledFrom([]int{2, 2, 2, 2, 1, 3, permit.MaxPermits}).Draw(w.t, "permits")
}

func (w *permitPair) slot(permits int) int { return rapid.IntRange(1, permits).Draw(w.t, "slot") }

// answer compares what a script says with what the model does.
func (w *permitPair) answer(what string, slot, other int, reply any, want permit.Answer, fenced bool) {
	vote := quorum.Refused
	if want.Slot != 0 {
		vote = quorum.Granted
	}
	if slot != want.Slot || other != want.Other || Grant.Vote(reply) != vote {
		w.t.Fatalf("%s: the script says %v, the model %+v", what, reply, want)
	}
	if fence := Fence(reply); want.Slot != 0 && (fence != 0) != fenced {
		w.t.Fatalf("%s: fence %d in %v, fenced %v", what, fence, reply, fenced)
	}
}

// choice is answer for a request that says what is free.
func (w *permitPair) choice(what string, permits int, reply any, want permit.Answer, fenced bool) {
	got := ReadChoice(reply)
	w.answer(what, got.Got, got.Other, reply, want, fenced)
	for slot := 1; slot <= permits && want.Other == 0; slot++ {
		if got.IsFree(slot) != (want.Free>>(slot-1)&1 == 1) {
			w.t.Fatalf("%s: the script says %v, the model that %b are free", what, reply, want.Free)
		}
	}
}

// fencing returns the arguments for it, or none.
func (w *permitPair) fencing() (Fencing, []any) {
	if rapid.Bool().Draw(w.t, "fenced") {
		f := Fencing{Wall: w.timestamp(), Life: pairLife * time.Millisecond}
		return f, []any{f.Wall, pairLife}
	}
	return Fencing{}, nil
}

func (w *permitPair) takes(value string, permits, slot int, only bool) (reply any, fenced bool) {
	fencing, args := w.fencing()
	request := &Take{
		Semaphore: Semaphore{permitName, permits}, Value: value, TTL: pairTTL * time.Millisecond, Grace: pairGrace * time.Millisecond,
		Slot: slot, Only: only, Fencing: fencing,
	}
	sole := 0
	if only {
		sole = 1
	}
	args = append([]any{value, pairTTL, pairGrace, permits, permitLife.Milliseconds(), slot, sole}, args...)
	return w.eval(request.Request(), permitTakes, args...), fencing.Life != 0
}

func (w *permitPair) take(*rapid.T) {
	value, permits := w.value(), w.permits()
	first := w.slot(permits)
	reply, fenced := w.takes(value, permits, first, false)
	w.choice("take", permits, reply, w.model.Take(value, permits, first), fenced)
}

func (w *permitPair) takeSlot(*rapid.T) {
	value, permits := w.value(), w.permits()
	slot := w.slot(permits)
	reply, fenced := w.takes(value, permits, slot, true)
	want, _ := w.model.TakeSlot(value, permits, slot, pairAlive)
	w.choice("take a slot", permits, reply, want, fenced)
}

func (w *permitPair) wait(*rapid.T) {
	value, permits := w.value(), w.permits()
	if waiting := w.model.Waiting[:]; !slices.Contains(waiting, value) && !slices.Contains(waiting, "") {
		return // the model has no place for it
	}
	first := w.slot(permits)
	fencing, args := w.fencing()
	request := &AwaitPermit{
		Semaphore: Semaphore{permitName, permits}, Value: value, TTL: pairTTL * time.Millisecond,
		Slot: first, Process: pairProcess(value), Waited: time.Second, Fencing: fencing,
	}
	reply := w.eval(request.Request(), permitWaits, append([]any{
		value, pairTTL, permits, permitLife.Milliseconds(), first, pairProcess(value), 1_000_000, maxWaiting,
	}, args...)...)
	got, want := ReadPermit(reply), w.model.Wait(value, permits, first)
	w.answer("wait", got.Slot, got.Other, reply, want, fencing.Life != 0)
	if want.Slot == 0 && want.Other == 0 {
		if got.Left <= 0 || got.Left > pairTTL*time.Millisecond || (reply.([]any)[2] == int64(1)) != want.Waits {
			w.t.Fatalf("wait: the script says %v, the model %v", reply, want)
		}
	}
}

func (w *permitPair) release(*rapid.T) {
	value, permits := w.value(), w.permits()
	keep := rapid.IntRange(0, permits).Draw(w.t, "keep")
	args, process := []any{value, pairGrace, permits, keep}, ""
	if rapid.Bool().Draw(w.t, "leaves") {
		process = pairProcess(value)
		args = append(args, process)
		w.model.Leave(value)
	}
	want, before := int64(0), w.model.Slots
	given := w.model.Release(value, permits, keep, pairAlive)
	for i := range permits {
		switch {
		case given[i] != "":
			want = 2
		case i+1 != keep && before[i] == value:
			want = max(want, 1)
		}
	}
	request := Semaphore{permitName, permits}.GiveBack(value, pairGrace*time.Millisecond, keep, process)
	if got := w.eval(request, permitReleases, args...); got != want {
		w.t.Fatalf("release: the script says %v, the model %d", got, want)
	}
}

// extend is extend.lua with the two pairs of a permit.
func (w *permitPair) extend(*rapid.T) {
	value, permits := w.value(), w.permits()
	slot := w.slot(permits)
	ofSlot, ofPermits := w.model.Extend(value, permits, slot)
	s := Semaphore{permitName, permits}
	e := NewExtension(1)
	e.AddPermit(permitName+Slot(slot), s, value, pairTTL*time.Millisecond)
	keys := []string{permitName + "#" + strconv.Itoa(slot), permitKey}
	if words := pipeline.On(keys, value, pairTTL, permits, permitLife.Milliseconds()); !assert.ObjectsAreEqual(words, e.Request().Words) {
		w.t.Fatalf("the request is %+v, not %+v", e.Request().Words, words)
	}
	reply := w.do("EVAL", bare([]string{extendSource}), 2, keys[0], keys[1], value, pairTTL, permits, permitLife.Milliseconds())
	want := quorum.Refused
	if ofSlot == 1 && ofPermits == 1 {
		want = quorum.Granted
	}
	answer := ReadExtended(reply)
	vote, touched, err := answer.NextPermit()
	if err != nil || vote != want || touched != (ofSlot != 0) {
		w.t.Fatalf("extend: the script says %v, the model %d and %d; read as %v, touched %v: %v", reply, ofSlot, ofPermits, vote, touched, err)
	}
}

func (w *permitPair) expire(*rapid.T) {
	slot := w.slot(permit.MaxPermits)
	w.do("DEL", permitName+"#"+strconv.Itoa(slot))
	w.model.Expire(slot)
}

// compare compares everything that is kept. The number of permits always outlives the slots.
func (w *permitPair) compare(*rapid.T) {
	text := func(key string) string {
		value, err := redis.String(w.conn.Do("GET", key))
		if err != nil && !errors.Is(err, redis.ErrNil) {
			w.t.Fatal(err)
		}
		return value
	}
	known, _ := strconv.Atoi("0" + text(permitKey)) //nolint:errcheck // a number, or none
	got := permit.Entry[string]{Permits: known}
	for i := range got.Slots {
		got.Slots[i] = text(permitName + "#" + strconv.Itoa(i+1))
	}
	members, err := redis.Strings(w.conn.Do("ZRANGE", permitList, 0, -1))
	if err != nil {
		w.t.Fatal(err)
	}
	for i, member := range members {
		_, got.Waiting[i], _ = strings.Cut(member, ":")
	}
	if got != w.model {
		w.t.Fatalf("the server keeps %+v, the model %+v", got, w.model)
	}
	if left := w.do("PTTL", permitKey).(int64); known != 0 && left < permitLife.Milliseconds()-time.Hour.Milliseconds() {
		w.t.Fatalf("the number of permits lives for %d ms only", left)
	}
}
