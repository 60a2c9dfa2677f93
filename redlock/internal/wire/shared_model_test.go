package wire

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/gomodule/redigo/redis"
	"pgregory.net/rapid"

	"github.com/redquorum/redquorum/internal/proof/spec"
)

// sharedPair has a node of the model of readers and writers in which violations are searched for.
type sharedPair struct {
	*pair
	model *spec.Shared[string]
}

const (
	sharedKey   = "x"
	sharedGrace = 100_000

	// Times of the model are behind those of the server by as long as a step takes. Times to live
	// differ by more.
	sharedSlack = 40_000
)

var (
	sharedReaders = pairValues[:3]
	sharedWriters = pairValues[3:]
)

func TestSharedScriptsDoWhatTheModelDoes(t *testing.T) {
	check(t, func(p *pair) {
		w := &sharedPair{p, &spec.Shared[string]{Marker: Marker}}
		p.t.Repeat(map[string]func(*rapid.T){
			"":              w.compare,
			"acquire read":  w.acquireRead,
			"wait to read":  w.waitRead,
			"extend read":   w.extendRead,
			"release read":  w.releaseRead,
			"raise read":    w.raiseRead,
			"verify read":   w.verifyRead,
			"acquire write": w.acquireWrite,
			"announce":      w.announce,
			"intend":        w.intend,
			"wait to write": w.waitWrite,
			"wait":          w.waitUnannounced,
			"extend write":  w.extendWrite,
			"release write": w.releaseWrite,
			"lapse":         w.lapse,
			"lose":          w.lose,
		})
	})
}

// tick moves the model's clock to the server's.
func (w *sharedPair) tick() { w.model.Now = w.now() / 1000 }

// call runs a script at the time of the model.
func (w *sharedPair) call(args []any, sources ...string) any {
	w.tick()
	return w.eval([]string{sharedKey}, args, sources...)
}

// granted is what a script answers to an acquisition.
func granted(fence int64, ok bool) any {
	if !ok {
		return int64(0)
	}
	return strconv.FormatInt(fence, 10)
}

func (w *sharedPair) reader() string { return draw(w.pair, "reader", sharedReaders...) }
func (w *sharedPair) writer() string { return draw(w.pair, "writer", sharedWriters...) }
func (w *sharedPair) ttl() int64     { return draw[int64](w.pair, "ttl", 200_000, 300_000, 400_000) }

// turn is whether a reader's turn has come, for the model and for the script.
func (w *sharedPair) turn() (bool, string) {
	turn := w.flip("turn")
	return turn, map[bool]string{true: "1"}[turn]
}

func (w *sharedPair) acquireRead(*rapid.T) {
	value, ttl, ts := w.reader(), w.ttl(), w.timestamp()
	turn, flag := w.turn()
	reply := w.call([]any{value, ttl, flag, pairProcess(value), ts, pairLife}, sharedAcquires...)
	w.same("read", reply, granted(w.model.AcquireRead(value, ttl, ts, turn)))
}

func (w *sharedPair) waitRead(*rapid.T) {
	value, ttl, ts := w.reader(), w.ttl(), w.timestamp()
	turn, flag := w.turn()
	args := []any{value, ttl, sharedGrace, flag, pairProcess(value), 0, 100, "", ts, pairLife}
	reply := w.waited(w.call(args, sharedWaits...), "")
	w.same("wait to read", reply, granted(w.model.WaitRead(value, ttl, ts, turn, sharedGrace, pairAlive)))
}

// waited is what a script that waits answers to an acquisition. If it did not grant, the caller is
// on the list. Met is the key that a writer meets.
func (w *sharedPair) waited(reply any, met string) any {
	answers := reply.([]any)
	if answers[0] == int64(1) {
		return answers[1]
	}
	want := []any{int64(0), int64(1), answers[2], int64(1)}
	if met == w.model.Marker {
		want = append(want, int64(-4))
	}
	if !slices.Equal(answers, want) || answers[2].(int64) <= 0 {
		w.t.Fatalf("the script says %v", answers)
	}
	return int64(0)
}

// answers are those of the scripts.
var answers = [...]int64{spec.Refused: 0, spec.Extended: 1, spec.Healed: 2}

// extended is the answer for the only key. A script may say in one word that all were extended.
func extended(reply any) any {
	if votes, ok := reply.([]any); ok {
		return votes[0]
	}
	return answers[spec.Extended]
}

func (w *sharedPair) extendRead(*rapid.T) {
	value, ttl := w.reader(), w.ttl()
	reply := w.call([]any{value, fmt.Sprintf("+%d", ttl)}, sharedExtends...)
	w.same("extend read", extended(reply), answers[w.model.ExtendRead(value, ttl)])
}

func (w *sharedPair) releaseRead(*rapid.T) {
	value := w.reader()
	reply := w.call([]any{value, sharedGrace, pairProcess(value)}, sharedReleases...)
	last := !slices.ContainsFunc(w.model.Members, func(m spec.Member[string]) bool {
		return m.Value != value && m.Until > w.model.Now
	})
	want := int64(0)
	if w.model.ReleaseRead(value, sharedGrace, pairAlive) {
		want = 1
		if last && w.model.Key != "" {
			want = 2
		}
	}
	w.same("release read", reply, want)
}

func (w *sharedPair) raiseRead(*rapid.T) {
	value := w.reader()
	to := w.model.Fence + rapid.Int64Range(-1, 2).Draw(w.t, "above")
	if to <= 2 {
		w.t.Skip("no counter yet")
	}
	reply := w.call([]any{value, strconv.FormatInt(to, 10), pairLife}, sharedRaises...)
	w.same("raise read", reply, map[bool]int64{true: 1}[w.model.RaiseRead(value, to)])
}

func (w *sharedPair) verifyRead(*rapid.T) {
	value := w.reader()
	reply := w.call([]any{value}, sharedVerifies...)
	reads := w.model.Key == w.model.Marker && slices.ContainsFunc(w.model.Members, func(m spec.Member[string]) bool {
		return m.Value == value && m.Until > w.model.Now
	})
	w.same("verify read", reply, map[bool]int64{true: 1}[reads])
}

func (w *sharedPair) acquireWrite(*rapid.T) {
	value, ttl, ts := w.writer(), w.ttl(), w.timestamp()
	reply := w.call([]any{value, ttl, ts, pairLife}, acquires...)
	w.same("write", reply, granted(w.model.AcquireWrite(value, ttl, ts)))
}

func (w *sharedPair) announce(*rapid.T) {
	value, ttl, ts := w.writer(), w.ttl(), w.timestamp()
	reply := w.call([]any{value, ttl, pairTTL, ts, pairLife}, announces...)
	if reply != int64(0) {
		w.do("ZREM", waitKey+sharedKey, place(value)) // as wait.lua does
	}
	w.same("announce", reply, granted(w.model.AnnounceWrite(value, ttl, ts)))
}

// intend is an announcement alone, which may come at any time.
func (w *sharedPair) intend(*rapid.T) {
	value := w.writer()
	w.do("SET", intentKey+sharedKey, value, "PX", pairTTL)
	w.model.Intend(value)
}

func (w *sharedPair) waitWrite(*rapid.T) {
	value, ttl, ts := w.writer(), w.ttl(), w.timestamp()
	met := w.model.Key
	args := []any{value, ttl, sharedGrace, 1, pairProcess(value), 0, 100, "", ts, pairLife, pairTTL}
	w.same("wait to write", w.waited(w.call(args, waits...), met), granted(w.model.WaitWrite(value, ttl, ts)))
}

// waitUnannounced is the wait of a writer that has not met readers yet: it sets no intent.
func (w *sharedPair) waitUnannounced(*rapid.T) {
	value, ttl, ts := w.writer(), w.ttl(), w.timestamp()
	met, intent := w.model.Key, w.model.Intent
	if intent == value {
		w.t.Skip("it has met readers")
	}
	args := []any{value, ttl, sharedGrace, 1, pairProcess(value), 0, 100, "", ts, pairLife}
	w.same("wait", w.waited(w.call(args, waits...), met), granted(w.model.WaitWrite(value, ttl, ts)))
	w.model.Intent = intent
}

func (w *sharedPair) extendWrite(*rapid.T) {
	value, ttl := w.writer(), w.ttl()
	source := draw(w.pair, "source", []string{extendSource}, sharedExtends)
	reply := w.call([]any{value, ttl}, source...)
	w.same("extend write", extended(reply), answers[w.model.ExtendWrite(value, ttl)])
}

func (w *sharedPair) releaseWrite(*rapid.T) {
	value := w.writer()
	args := []any{value, sharedGrace, pairProcess(value), "announced"}
	if w.model.Intent != value && w.flip("has met no readers") {
		args = args[:3]
	}
	reply := w.call(args, releases...)
	want := int64(0)
	if w.model.ReleaseWrite(value, sharedGrace, pairAlive) {
		want = 1
		if w.model.Key != "" {
			want = 2
		}
	}
	w.same("release write", reply, want)
}

// lapse lets the time of a member come. If none lives longer, the key goes with it.
func (w *sharedPair) lapse(*rapid.T) {
	if w.model.Key != w.model.Marker {
		w.t.Skip("nobody reads")
	}
	w.tick()
	value := draw(w.pair, "member", w.model.Members...).Value
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
	_, last := w.scores()
	w.do("PEXPIREAT", sharedKey, last)
}

// lose deletes the key alone, or an intent.
func (w *sharedPair) lose(*rapid.T) {
	if w.flip("intent") {
		w.do("DEL", intentKey+sharedKey)
		w.model.Intent = ""
		return
	}
	w.do("DEL", sharedKey)
	w.model.Key, w.model.Until = "", 0
}

// scores are the members of the set with the last millisecond of each, and the last of all.
func (w *sharedPair) scores() (scores map[string]int64, last int64) {
	scores, err := redis.Int64Map(w.do("ZRANGE", "redquorum:readers:"+sharedKey, 0, -1, "WITHSCORES"), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, score := range scores {
		last = max(last, score)
	}
	return scores, last
}

// compare compares everything that is kept.
func (w *sharedPair) compare(*rapid.T) {
	scores, longest := w.scores()
	members, want, waiting := []string{}, []string{}, []string{}
	for value := range scores {
		members = append(members, value)
	}
	for _, m := range w.model.Members {
		want = append(want, m.Value)
		if behind := scores[m.Value] - m.Until; m.Until > w.model.Now && (behind < -1 || behind > sharedSlack) {
			w.t.Fatalf("%s has %d ms more than in the model", m.Value, behind)
		}
	}
	slices.Sort(members)
	slices.Sort(want)
	for _, waiter := range w.model.Waiting {
		waiting = append(waiting, map[bool]string{true: "+"}[waiter.Reads]+place(waiter.Value))
	}
	w.same("state", []any{
		w.get(sharedKey), members, w.get(intentKey + sharedKey), cmp.Or(w.get(fenceKey+sharedKey), "0"), w.members(waitKey + sharedKey),
	}, []any{w.model.Key, want, w.model.Intent, fmt.Sprint(w.model.Fence), waiting})
	if w.model.Key == w.model.Marker {
		w.compareTimes(longest)
	}
}

// compareTimes requires that the marker ends with the member that lives longest.
func (w *sharedPair) compareTimes(longest int64) {
	w.tick()
	before := w.model.Now
	left := w.left(sharedKey)
	w.tick()
	if left < longest-w.model.Now-1 || left > longest-before+1 {
		w.t.Fatalf("the marker has %d ms left, its readers %d", left, longest-before)
	}
}
