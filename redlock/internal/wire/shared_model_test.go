package wire

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"pgregory.net/rapid"

	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/internal/proof/spec"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
)

// sharedPair has a node of the model of readers and writers in which violations are searched for.
type sharedPair struct {
	*pair
	model     *spec.Entry[string]
	preferred int // how many holders were
}

const (
	sharedKey   = "x"
	sharedGrace = 100 * time.Second

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
		w := &sharedPair{pair: p, model: &spec.Entry[string]{Marker: Marker}}
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
			"prefer":        w.prefer,
			"release write": w.releaseWrite,
			"lapse":         w.lapse,
			"lose":          w.lose,
		})
	})
}

// tick moves the model's clock to the server's.
func (w *sharedPair) tick() { w.model.Now = w.now() / 1000 }

// ask sends a request at the time of the model.
func (w *sharedPair) ask(r pipeline.Request) any {
	w.tick()
	return w.pair.ask(r)
}

func (w *sharedPair) reader() string { return draw(w.pair, "reader", sharedReaders...) }
func (w *sharedPair) writer() string { return draw(w.pair, "writer", sharedWriters...) }

func (w *sharedPair) ttl() time.Duration {
	return draw(w.pair, "ttl", 200*time.Second, 300*time.Second, 400*time.Second)
}

// token compares what a script and the model granted.
func (w *sharedPair) token(what string, f Fencing, reply any, fence int64, granted bool) {
	w.verdict(what, Grant, reply, granted)
	if granted {
		w.same(what, Fence(reply, f.Wall), fence)
	}
}

func (w *sharedPair) acquireRead(*rapid.T) {
	value, ttl, turn, f := w.reader(), w.ttl(), w.flip("turn"), w.fencing()
	reply := w.ask(AcquireShared(sharedKey, value, ttl, turn, pairProcess(value), f))
	fence, granted := w.model.AcquireRead(value, ttl.Milliseconds(), f.Wall, turn)
	w.token("read", f, reply, fence, granted)
}

// waits returns the wait of a reader or a writer.
func (w *sharedPair) waits(value string, ttl time.Duration) *Wait {
	return &Wait{
		Keys: []string{sharedKey}, Value: value, TTL: ttl, Grace: sharedGrace, Process: pairProcess(value), Fencing: w.fencing(),
	}
}

// waited compares what a wait gave. If that is nothing, the caller learns whom a writer met.
func (w *sharedPair) waited(what string, reply any, fence int64, granted bool, met string) {
	w.token(what, Fencing{}, reply, fence, granted)
	if got := ReadWait(reply); !granted {
		holder := HolderOurs
		if met == w.model.Marker {
			holder = HolderReaders
		}
		w.same(what, []any{got.Taken, got.Left > 0, got.Holder}, []any{0, true, holder})
	}
}

func (w *sharedPair) waitRead(*rapid.T) {
	value, ttl, turn := w.reader(), w.ttl(), w.flip("turn")
	wait := w.waits(value, ttl)
	reply := w.ask(wait.SharedRequest(turn))
	fence, granted := w.model.WaitRead(value, ttl.Milliseconds(), wait.Fencing.Wall, turn, sharedGrace.Milliseconds(), pairAlive)
	w.waited("wait to read", reply, fence, granted, "")
}

// votes are what the extension of the only lock is read as.
var votes = map[spec.Answer][]any{
	spec.Refused:  {quorum.Refused, false, true, nil},
	spec.Extended: {quorum.Granted, false, false, nil},
	spec.Lacking:  {quorum.Refused, true, false, nil},
}

// extend compares the answer to an extension of the only lock.
func (w *sharedPair) extend(e *Extension, extended func() spec.Answer) {
	answer := ReadExtended(w.ask(e.Request()))
	vote, absent, taken, err := answer.Next(1)
	w.same("extend", []any{vote, absent, taken, err}, votes[extended()])
}

func (w *sharedPair) extendRead(*rapid.T) {
	value, ttl := w.reader(), w.ttl()
	e, model := NewExtension(1), w.model.ExtendRead
	if w.flip("heals") {
		e, model = Heal(), w.model.HealRead
	}
	e.AddShared([]string{sharedKey}, value, ttl)
	w.extend(e, func() spec.Answer { return model(value, ttl.Milliseconds()) })
}

func (w *sharedPair) releaseRead(*rapid.T) {
	value := w.reader()
	reply := w.ask(ReleaseShared(sharedKey, value, sharedGrace, pairProcess(value)))
	last := !slices.ContainsFunc(w.model.Members, func(m spec.Member[string]) bool {
		return m.Value != value && m.Until > w.model.Now
	})
	want := outcome(w.model.ReleaseRead(value, sharedGrace.Milliseconds(), pairAlive), w.model)
	if want == quorum.Handed && !last {
		want = quorum.Granted
	}
	w.same("release read", Released.Vote(reply), want)
}

func (w *sharedPair) raiseRead(*rapid.T) {
	value := w.reader()
	to := w.model.Fence + rapid.Int64Range(-1, 2).Draw(w.t, "above")
	if to <= 2 {
		w.t.Skip("no counter yet")
	}
	reply := w.ask(RaiseShared(sharedKey, value, to, pairLife))
	w.verdict("raise read", Raised, reply, w.model.RaiseRead(value, to))
}

func (w *sharedPair) verifyRead(*rapid.T) {
	value := w.reader()
	reply := w.ask(VerifyShared(sharedKey, value))
	w.verdict("verify read", Yes, reply, w.model.Key == w.model.Marker && slices.ContainsFunc(w.model.Members, func(m spec.Member[string]) bool {
		return m.Value == value && m.Until > w.model.Now
	}))
}

func (w *sharedPair) acquireWrite(*rapid.T) {
	value, ttl, f := w.writer(), w.ttl(), w.fencing()
	reply := w.ask(Acquire(&Claim{}, []string{sharedKey}, value, ttl, f))
	fence, granted := w.model.AcquireWrite(value, ttl.Milliseconds(), f.Wall)
	w.token("write", f, reply, fence, granted)
}

func (w *sharedPair) announce(*rapid.T) {
	value, ttl, f := w.writer(), w.ttl(), w.fencing()
	reply := w.ask(Announce(sharedKey, value, ttl, pairTTL, f))
	fence, granted := w.model.AnnounceWrite(value, ttl.Milliseconds(), f.Wall)
	if granted {
		w.do("ZREM", waitKey+sharedKey, place(value)) // as wait.lua does
	}
	w.token("announce", f, reply, fence, granted)
}

// intend is an announcement alone, which may come at any time.
func (w *sharedPair) intend(*rapid.T) {
	value := w.writer()
	w.same("intend", w.ask(Intend(sharedKey, value, pairTTL)), "OK")
	w.model.Intend(value)
}

func (w *sharedPair) waitWrite(*rapid.T) {
	value, ttl, met := w.writer(), w.ttl(), w.model.Key
	wait := w.waits(value, ttl)
	wait.Intent = pairTTL
	reply := w.ask(wait.Request())
	fence, granted := w.model.WaitWrite(value, ttl.Milliseconds(), wait.Fencing.Wall)
	w.waited("wait to write", reply, fence, granted, met)
}

// waitUnannounced is the wait of a writer that has not met readers yet: it sets no intent.
func (w *sharedPair) waitUnannounced(*rapid.T) {
	value, ttl, met, intent := w.writer(), w.ttl(), w.model.Key, w.model.Intent
	if intent == value {
		w.t.Skip("it has met readers")
	}
	wait := w.waits(value, ttl)
	reply := w.ask(wait.Request())
	fence, granted := w.model.WaitWrite(value, ttl.Milliseconds(), wait.Fencing.Wall)
	w.waited("wait", reply, fence, granted, met)
	w.model.Intent = intent
}

func (w *sharedPair) extendWrite(*rapid.T) {
	value, ttl := w.writer(), w.ttl()
	e, model := NewExtension(1), w.model.ExtendWrite
	if w.flip("heals") {
		e, model = Heal(), w.model.HealWrite
	}
	e.Add([]string{sharedKey}, value, ttl)
	e.several = w.flip("beside readers")
	w.extend(e, func() spec.Answer { return model(value, ttl.Milliseconds()) })
}

// prefer puts a holder before all who wait. Each has its place for longer than the one before, so
// that the order is certain.
func (w *sharedPair) prefer(*rapid.T) {
	w.preferred++
	ttl := 100*time.Second + time.Duration(w.preferred)*100*time.Millisecond
	value, reads := w.reader(), w.flip("reads")
	ask := &Prefer{Keys: []string{sharedKey}, Value: value, TTL: ttl}
	request := (*Prefer).SharedRequest
	if !reads {
		ask.Value, request = w.writer(), (*Prefer).Request
	}
	ask.Process = pairProcess(ask.Value)
	w.same("prefer", w.ask(request(ask)), int64(1))
	w.model.Prefer(ask.Value, reads, w.model.Now+ttl.Milliseconds())
}

func (w *sharedPair) releaseWrite(*rapid.T) {
	keys, value := []string{sharedKey}, w.writer()
	request := ReleaseAnnounced(keys, value, sharedGrace, pairProcess(value))
	if w.model.Intent != value && w.flip("has met no readers") {
		request = Release(&Claim{}, keys, value, sharedGrace, pairProcess(value))
	}
	reply := w.ask(request)
	want := outcome(w.model.ReleaseWrite(value, sharedGrace.Milliseconds(), pairAlive), w.model)
	w.same("release write", Released.Vote(reply), want)
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
	members, want := []string{}, []string{}
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
	w.same("state", []any{
		w.get(sharedKey), members, w.get(intentKey + sharedKey), cmp.Or(w.get(fenceKey+sharedKey), "0"), w.members(waitKey + sharedKey),
	}, []any{w.model.Key, want, w.model.Intent, fmt.Sprint(w.model.Fence), places(w.model.Waiting)})
	w.compareInspection()
	if w.model.Key == w.model.Marker {
		w.compareTimes(longest)
	}
}

// compareInspection compares what is told of the lock, of which the readers are those alive.
func (w *sharedPair) compareInspection() {
	in, ok := ReadInspect(w.ask(Inspect(sharedKey)))
	told, want := []string{}, []string{}
	for _, reader := range in.Readers {
		told = append(told, reader.Value)
	}
	for _, m := range w.model.Members {
		if w.model.Key == w.model.Marker && m.Until > w.model.Now {
			want = append(want, m.Value)
		}
	}
	slices.Sort(told)
	slices.Sort(want)
	w.same("inspected", []any{ok, in.Held, in.Value, in.Fence, told}, []any{true, w.model.Key != "", w.model.Key, w.model.Fence, want})
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
