package wire

import "pgregory.net/rapid"

// The steps of writers, see shared_scripts_test.go.

func (w *sharedPair) acquireWrite(*rapid.T) {
	value, ttl, ts := w.writer(), w.ttl(), w.timestamp()
	reply := w.run([]any{value, ttl, ts, pairLife}, acquires)
	w.same("write", reply, granted(w.model.AcquireWrite(value, ttl, ts)))
}

func (w *sharedPair) announce(*rapid.T) {
	value, ttl, ts := w.writer(), w.ttl(), w.timestamp()
	reply := w.run([]any{value, ttl, pairTTL, ts, pairLife}, announces)
	if reply != int64(0) {
		w.do("ZREM", "redquorum:wait:"+sharedKey, pairProcess(value)+":"+value) // as wait.lua does
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
	w.same("wait to write", w.waited(w.run(args, waits), met), granted(w.model.WaitWrite(value, ttl, ts)))
}

// waitUnannounced is the wait of a writer that has not met readers yet: it sets no intent.
func (w *sharedPair) waitUnannounced(*rapid.T) {
	value, ttl, ts := w.writer(), w.ttl(), w.timestamp()
	met, intent := w.model.Key, w.model.Intent
	if intent == value {
		w.t.Skip("it has met readers")
	}
	args := []any{value, ttl, sharedGrace, 1, pairProcess(value), 0, 100, "", ts, pairLife}
	w.same("wait", w.waited(w.run(args, waits), met), granted(w.model.WaitWrite(value, ttl, ts)))
	w.model.Intent = intent
}

func (w *sharedPair) extendWrite(*rapid.T) {
	value, ttl := w.writer(), w.ttl()
	w.tick()
	source := rapid.SampledFrom([][]string{{extendSource}, sharedExtends}).Draw(w.t, "source")
	reply := w.run([]any{value, ttl}, source)
	w.same("extend write", extended(reply), answers[w.model.ExtendWrite(value, ttl)])
}

func (w *sharedPair) releaseWrite(*rapid.T) {
	value := w.writer()
	w.tick()
	args := []any{value, sharedGrace, pairProcess(value), "announced"}
	if w.model.Intent != value && rapid.Bool().Draw(w.t, "has met no readers") {
		args = args[:3]
	}
	reply := w.run(args, releases)
	want := int64(0)
	if w.model.ReleaseWrite(value, sharedGrace, pairAlive) {
		want = 1
		if w.model.Key != "" {
			want = 2
		}
	}
	w.same("release write", reply, want)
}
