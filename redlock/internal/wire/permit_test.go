package wire

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/redquorum/redquorum/internal/permitmodel"
	"github.com/redquorum/redquorum/internal/redistest"
)

// permitPair is a server that runs the scripts of a semaphore, and a node of its model. Both get
// the same commands, and must answer the same and keep the same.
type permitPair struct {
	*pair
	model permitmodel.Entry[string]
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

func (w *permitPair) eval(sources []string, args ...any) []any {
	reply := w.do("EVAL", append([]any{bare(sources), 1, permitName}, args...)...)
	replies, _ := reply.([]any)
	return replies
}

// permits is mostly the same number, so that slots are taken.
func (w *permitPair) permits() int {
	return rapid.SampledFrom([]int{2, 2, 2, 2, 1, 3, permitmodel.MaxPermits}).Draw(w.t, "permits")
}

func (w *permitPair) slot(permits int) int { return rapid.IntRange(1, permits).Draw(w.t, "slot") }

// answer compares what a script says with what the model does.
func (w *permitPair) answer(what string, permits int, got []any, want permitmodel.Answer, fenced bool) {
	if want.Other != 0 {
		if len(got) != 2 || got[0] != int64(-1) || got[1] != int64(want.Other) {
			w.t.Fatalf("%s: the script says %v, the model knows %d permits", what, got, want.Other)
		}
		return
	}
	fence := fmt.Sprintf("%s", got[1])
	if got[0] != int64(want.Slot) || want.Slot != 0 && fenced != isFence([]byte(fence)) {
		w.t.Fatalf("%s: the script says %v, the model slot %d", what, got, want.Slot)
	}
	if what == "wait" {
		return
	}
	free := make([]byte, permits)
	for i := range free {
		free[i] = '0' + want.Free>>i&1
	}
	if text, _ := got[2].([]byte); string(text) != string(free) {
		w.t.Fatalf("%s: the script says %s are free, the model %s", what, text, free)
	}
}

// fencing returns the arguments for it, or none.
func (w *permitPair) fencing() []any {
	if rapid.Bool().Draw(w.t, "fenced") {
		return []any{w.timestamp(), pairLife}
	}
	return nil
}

func (w *permitPair) take(*rapid.T) {
	value, permits := w.value(), w.permits()
	first, fencing := w.slot(permits), w.fencing()
	got := w.eval(permitTakes, append([]any{value, pairTTL, pairGrace, permits, permitLife.Milliseconds(), first, 0}, fencing...)...)
	w.answer("take", permits, got, w.model.Take(value, permits, first), fencing != nil)
}

func (w *permitPair) takeSlot(*rapid.T) {
	value, permits := w.value(), w.permits()
	slot, fencing := w.slot(permits), w.fencing()
	got := w.eval(permitTakes, append([]any{value, pairTTL, pairGrace, permits, permitLife.Milliseconds(), slot, 1}, fencing...)...)
	want, _ := w.model.TakeSlot(value, permits, slot, pairAlive)
	w.answer("take a slot", permits, got, want, fencing != nil)
}

func (w *permitPair) wait(*rapid.T) {
	value, permits := w.value(), w.permits()
	first, fencing := w.slot(permits), w.fencing()
	got := w.eval(permitWaits, append([]any{
		value, pairTTL, permits, permitLife.Milliseconds(), first, pairProcess(value), 0, permitmodel.MaxWaiting,
	}, fencing...)...)
	want := w.model.Wait(value, permits, first)
	w.answer("wait", permits, got, want, fencing != nil)
	if want.Slot == 0 && want.Other == 0 {
		if left, _ := got[1].(int64); left <= 0 || left > pairTTL || (got[2] == int64(1)) != want.Waits {
			w.t.Fatalf("wait: the script says %v, the model %v", got, want)
		}
	}
}

func (w *permitPair) release(*rapid.T) {
	value, permits := w.value(), w.permits()
	keep := rapid.IntRange(0, permits).Draw(w.t, "keep")
	args := []any{bare(permitReleases), 1, permitName, value, pairGrace, permits, keep}
	if rapid.Bool().Draw(w.t, "leaves") {
		args = append(args, pairProcess(value))
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
	if got := w.do("EVAL", args...); got != want {
		w.t.Fatalf("release: the script says %v, the model %d", got, want)
	}
}

// extend is extend.lua with the two pairs of a permit.
func (w *permitPair) extend(*rapid.T) {
	value, permits := w.value(), w.permits()
	slot := w.slot(permits)
	ofSlot, ofPermits := w.model.Extend(value, permits, slot)
	got := w.do("EVAL", bare([]string{extendSource}), 2, permitName+"#"+strconv.Itoa(slot), permitKey,
		value, pairTTL, permits, permitLife.Milliseconds())
	if got == allExtended {
		got = []any{int64(1), int64(1)}
	}
	if want := []any{int64(ofSlot), int64(ofPermits)}; !assert.ObjectsAreEqual(want, got) {
		w.t.Fatalf("extend: the script says %v, the model %v", got, want)
	}
}

func (w *permitPair) expire(*rapid.T) {
	slot := w.slot(permitmodel.MaxPermits)
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
	got := permitmodel.Entry[string]{Permits: known}
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
