package history_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/proof/history"
)

// hold is an acquisition that was called at since and returned at from, and its release, which was
// called at to.
type hold struct {
	since, from, to clock.Instant
	token           int64
	reads           bool
	permits         int
	forced          bool
}

func historyOf(holds ...hold) []history.Event {
	var r history.Recorder
	for _, h := range holds {
		op := history.Operation{Function: history.Acquire, Name: "a", Permits: h.permits, Forced: h.forced}
		if h.reads {
			op.Function = history.AcquireShared
		}
		call := r.Invoke(h.since, op)
		call.Return(h.from, history.OK, h.token)
		call.Release(h.to)
	}
	return r.History()
}

func TestModelsOfLocks(t *testing.T) {
	for _, in := range []struct {
		about string
		model history.Model
		holds []hold
		want  history.Verdict
	}{
		{"nothing", history.Mutex, nil, history.Legal},
		{"one after the other", history.Mutex, []hold{{from: 1, to: 2}, {from: 2, to: 3}}, history.Legal},
		{"together", history.Mutex, []hold{{from: 1, to: 3}, {from: 2, to: 4}}, history.Illegal},
		{"called together", history.Mutex, []hold{{since: 1, from: 8, to: 9}, {since: 1, from: 2, to: 3}}, history.Legal},
		{"forced before it was known", history.Mutex, []hold{{since: 1, from: 5, to: 2, forced: true}, {since: 2, from: 3, to: 9}}, history.Legal},
		{"forced too late", history.Mutex, []hold{{since: 1, from: 5, to: 4, forced: true}, {since: 0, from: 3, to: 9}, {since: 0, from: 3, to: 9}}, history.Illegal},
		{"readers of a mutex", history.Mutex, []hold{{from: 1, to: 3, reads: true}, {from: 2, to: 4, reads: true}}, history.Illegal},
		{"tokens of a mutex", history.Mutex, []hold{{from: 1, to: 2, token: 9}, {from: 2, to: 3, token: 8}}, history.Legal},
		{"tokens that grow", history.FencedMutex, []hold{{from: 1, to: 2, token: 8}, {from: 2, to: 3}, {from: 3, to: 4, token: 9}}, history.Legal},
		{"tokens that shrink", history.FencedMutex, []hold{{from: 1, to: 2, token: 9}, {from: 2, to: 3, token: 8}}, history.Illegal},
		{"tokens that repeat", history.FencedMutex, []hold{{from: 1, to: 2, token: 9}, {from: 2, to: 3}, {from: 3, to: 4, token: 9}}, history.Illegal},
		{"tokens behind a forced lock", history.FencedMutex, []hold{{from: 1, to: 2, token: 9, forced: true}, {from: 2, to: 3, token: 8}}, history.Legal},
		{"readers", history.Shared, []hold{{from: 1, to: 5, reads: true}, {from: 2, to: 4, reads: true}, {from: 5, to: 6}}, history.Legal},
		{"a writer beside readers", history.Shared, []hold{{from: 1, to: 5, reads: true}, {from: 2, to: 4, reads: true}, {from: 4, to: 6}}, history.Illegal},
		{"a reader beside a writer", history.Shared, []hold{{from: 1, to: 5}, {from: 4, to: 6, reads: true}}, history.Illegal},
		{"tokens of readers", history.Shared, []hold{{from: 1, to: 2, token: 3}, {from: 2, to: 4, token: 5, reads: true}, {from: 3, to: 4, token: 3, reads: true}, {from: 4, to: 5, token: 6}}, history.Legal},
		{"a reader below a writer", history.Shared, []hold{{from: 1, to: 2, token: 3}, {from: 2, to: 4, token: 2, reads: true}}, history.Illegal},
		{"a writer like a reader", history.Shared, []hold{{from: 1, to: 2, token: 3, reads: true}, {from: 2, to: 4, token: 3}}, history.Illegal},
		{"permits", history.Semaphore, []hold{{from: 1, to: 4, permits: 2}, {from: 2, to: 5, permits: 2}, {from: 4, to: 6, permits: 2}}, history.Legal},
		{"a permit too many", history.Semaphore, []hold{{from: 1, to: 4, permits: 2}, {from: 2, to: 5, permits: 2}, {from: 3, to: 6, permits: 2}}, history.Illegal},
		{"two numbers", history.Semaphore, []hold{{from: 1, to: 4, permits: 2}, {from: 3, to: 5, permits: 3}}, history.Illegal},
		{"another number later", history.Semaphore, []hold{{from: 1, to: 4, permits: 2}, {from: 4, to: 5, permits: 3}}, history.Legal},
		{"two holders with tokens", history.Tokens, []hold{{from: 1, to: 9, token: 1}, {since: 2, from: 3, to: 9, token: 2}}, history.Legal},
		{"tokens that cross", history.Tokens, []hold{{since: 1, from: 3, token: 2}, {since: 2, from: 4, token: 1}}, history.Legal},
		{"tokens in the wrong order", history.Tokens, []hold{{from: 1, to: 9, token: 2}, {since: 2, from: 3, to: 9, token: 1}}, history.Illegal},
	} {
		assert.Equal(t, in.want, history.Check(historyOf(in.holds...), in.model), in.about)
	}
}

func TestNamesDoNotDependOnEachOther(t *testing.T) {
	var r history.Recorder
	for _, name := range []string{"a", "b", "b"} {
		r.Invoke(1, history.Operation{Function: history.Acquire, Name: name}).Return(2, history.OK, 0)
	}
	all := history.ByName(r.History())
	assert.Equal(t, history.Legal, history.Check(all["a"], history.Mutex))
	assert.Equal(t, history.Illegal, history.Check(all["b"], history.Mutex), "nobody released it")
	assert.Equal(t, history.Illegal, history.Check(r.History(), history.Mutex))
}

// A release of unknown outcome may take effect at any time from its call on, or never. An
// acquisition that failed, or of which nobody knows, holds nothing.
func TestUnknownOutcomesStayConcurrentToTheEnd(t *testing.T) {
	next := func(outcome history.Type, at clock.Instant) history.Verdict {
		var r history.Recorder
		first := r.Invoke(0, history.Operation{Function: history.Acquire, Name: "a"})
		first.Return(1, history.OK, 0)
		first.Release(10).Return(11, outcome, 0)
		r.Invoke(0, history.Operation{Function: history.Acquire, Name: "a"}).Return(at, history.OK, 0)
		for _, outcome := range []history.Type{history.Fail, history.Info} {
			r.Invoke(2, history.Operation{Function: history.Acquire, Name: "a"}).Return(3, outcome, 0)
		}
		r.Invoke(2, history.Operation{Function: history.Acquire, Name: "a"})
		return history.Check(r.History(), history.Mutex)
	}
	assert.Equal(t, history.Legal, next(history.OK, 12))
	assert.Equal(t, history.Legal, next(history.Info, 12))
	assert.Equal(t, history.Legal, next(history.Info, 100))
	assert.Equal(t, history.Illegal, next(history.Info, 9))
	assert.Equal(t, history.Illegal, next(history.Fail, 12), "a release that failed released nothing")
}

// step is what a worker did with task "t", one after the other.
type step struct {
	function history.Function
	outcome  history.Type
}

func TestModelOfAQueue(t *testing.T) {
	const put, take = history.Enqueue, history.Dequeue
	for _, in := range []struct {
		about string
		steps []step
		want  history.Verdict
	}{
		{"put and taken", []step{{put, history.OK}, {take, history.OK}}, history.Legal},
		{"put twice is put once", []step{{put, history.OK}, {put, history.OK}, {take, history.OK}, {take, history.OK}}, history.Illegal},
		{"taken before it was put", []step{{take, history.OK}, {put, history.OK}}, history.Illegal},
		{"put and taken again", []step{{put, history.OK}, {take, history.OK}, {put, history.OK}, {take, history.OK}}, history.Legal},
		{"taken twice", []step{{put, history.OK}, {take, history.OK}, {take, history.OK}}, history.Illegal},
		{"put perhaps", []step{{put, history.Info}, {take, history.OK}}, history.Legal},
		{"put perhaps, and never seen", []step{{put, history.Info}}, history.Legal},
		{"put perhaps is put once", []step{{put, history.Info}, {take, history.OK}, {take, history.OK}}, history.Illegal},
		{"not put", []step{{put, history.Fail}, {take, history.OK}}, history.Illegal},
		{"taken perhaps", []step{{put, history.OK}, {take, history.Info}, {take, history.OK}}, history.Legal},
		{"taken perhaps, and not there", []step{{take, history.Info}}, history.Legal},
		{"taken perhaps before it was put again", []step{{put, history.OK}, {take, history.Info}, {put, history.OK}, {take, history.OK}, {take, history.OK}}, history.Illegal},
	} {
		var r history.Recorder
		for i, s := range in.steps {
			at := clock.Instant(10 * i)
			r.Invoke(at, history.Operation{Function: s.function, Name: "q", Task: "t"}).Return(at+5, s.outcome, 0)
			r.Invoke(at, history.Operation{Function: put, Name: "q", Task: "another"}).Return(at+5, history.OK, 0)
		}
		assert.Equal(t, in.want, history.Check(r.History(), history.Queue), in.about)
	}
}

// A check that takes too long is no verdict. Of many who call for a permit together, one too many
// gets it: every choice of the others must be tried.
func TestACheckThatTakesTooLongIsUndecided(t *testing.T) {
	var holds []hold
	for range 27 {
		holds = append(holds, hold{from: 10, to: 20, permits: 26})
	}
	assert.Equal(t, history.Undecided, history.Check(historyOf(holds...), history.Semaphore))
}
