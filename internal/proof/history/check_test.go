package history_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/proof/history"
)

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

// A check that takes too long is no verdict. A task is popped that nobody queued, and nobody knows
// which of many other pops took place: every choice of these must be tried.
func TestACheckThatTakesTooLongIsUndecided(t *testing.T) {
	var r history.Recorder
	pop := history.Operation{Function: history.Dequeue, Name: "q", Task: "t"}
	for range 40 {
		r.Invoke(10, pop).Return(15, history.Info, 0)
	}
	r.Invoke(10, pop).Return(15, history.OK, 0)
	assert.Equal(t, history.Undecided, history.Check(r.History(), history.Queue))
}
