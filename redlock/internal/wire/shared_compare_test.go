package wire

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/gomodule/redigo/redis"
	"pgregory.net/rapid"
)

// What time and losses do to a server and to the model, and how they are compared, see
// shared_scripts_test.go.

// lapse lets the time of a member come. If none lives longer, the key goes with it.
func (w *sharedPair) lapse(*rapid.T) {
	if w.model.Key != w.model.Marker {
		w.t.Skip("nobody reads")
	}
	w.tick()
	value := rapid.SampledFrom(w.model.Members).Draw(w.t, "member").Value
	longest := int64(0)
	for i := range w.model.Members {
		if m := &w.model.Members[i]; m.Value == value {
			m.Until = w.model.Now
		} else {
			longest = max(longest, m.Until)
		}
	}
	w.do("ZADD", "redquorum:readers:"+sharedKey, w.model.Now-1, value)
	w.model.Until = longest
	w.model.Expire()
	if w.model.Key == "" {
		w.do("DEL", sharedKey)
		return
	}
	last := int64(0)
	for _, score := range w.scores() {
		last = max(last, score)
	}
	w.do("PEXPIREAT", sharedKey, last)
}

// lose deletes the key alone, or an intent.
func (w *sharedPair) lose(*rapid.T) {
	if rapid.Bool().Draw(w.t, "intent") {
		w.do("DEL", "redquorum:intent:"+sharedKey)
		w.model.Intent = ""
		return
	}
	w.do("DEL", sharedKey)
	w.model.Key, w.model.Until = "", 0
}

// scores are the members of the set, and the last millisecond of each.
func (w *sharedPair) scores() map[string]int64 {
	scores, err := redis.Int64Map(w.conn.Do("ZRANGE", "redquorum:readers:"+sharedKey, 0, -1, "WITHSCORES"))
	if err != nil {
		w.t.Fatal(err)
	}
	return scores
}

func (w *sharedPair) text(key string) string {
	value, err := redis.String(w.conn.Do("GET", key))
	if err != nil && !errors.Is(err, redis.ErrNil) {
		w.t.Fatal(err)
	}
	return value
}

// compare compares everything that is kept.
func (w *sharedPair) compare(*rapid.T) {
	scores := w.scores()
	members, want := []string{}, []string{}
	longest := int64(0)
	for value, score := range scores {
		members = append(members, value)
		longest = max(longest, score)
	}
	for _, m := range w.model.Members {
		want = append(want, m.Value)
		if behind := scores[m.Value] - m.Until; m.Until > w.model.Now && (behind < -1 || behind > sharedSlack) {
			w.t.Fatalf("%s has %d ms more than in the model", m.Value, behind)
		}
	}
	slices.Sort(members)
	slices.Sort(want)
	waiting := []string{}
	for _, waiter := range w.model.Waiting {
		mode := map[bool]string{true: "+"}[waiter.Reads]
		waiting = append(waiting, mode+pairProcess(waiter.Value)+":"+waiter.Value)
	}
	list, err := redis.Strings(w.conn.Do("ZRANGE", "redquorum:wait:"+sharedKey, 0, -1))
	if err != nil {
		w.t.Fatal(err)
	}
	fence := w.text(fenceKey + sharedKey)
	kept := fmt.Sprintf("%s %q %s %s %q", w.text(sharedKey), members, w.text("redquorum:intent:"+sharedKey), cmp.Or(fence, "0"), list)
	model := fmt.Sprintf("%s %q %s %d %q", w.model.Key, want, w.model.Intent, w.model.Fence, waiting)
	if kept != model {
		w.t.Fatalf("the server keeps %s, the model %s", kept, model)
	}
	if w.model.Key == w.model.Marker {
		w.compareTimes(longest)
	}
}

// compareTimes requires that the marker ends with the member that lives longest.
func (w *sharedPair) compareTimes(longest int64) {
	w.tick()
	before := w.model.Now
	left, err := redis.Int64(w.conn.Do("PTTL", sharedKey))
	if err != nil {
		w.t.Fatal(err)
	}
	w.tick()
	if left < longest-w.model.Now-1 || left > longest-before+1 {
		w.t.Fatalf("the marker has %d ms left, its readers %d", left, longest-before)
	}
}
