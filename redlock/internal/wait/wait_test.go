package wait

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/redquorum/redquorum/clock/clocktest"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
)

// hasTurn reports whether a ticket is the first of its queue; nil was from the beginning.
func hasTurn(t *Ticket) bool {
	if t == nil {
		return true
	}
	select {
	case <-t.Turn():
		return true
	default:
		return false
	}
}

func TestAQueueServesInOrderWhoeverLeaves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q Queue
		queues := map[string][]*Ticket{} // the model
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			name := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "name")
			waiting := queues[name]
			if len(waiting) == 0 || rapid.Bool().Draw(t, "joins") {
				ticket := q.Join(NameOf([]string{name}))
				assert.Equal(t, len(waiting) == 0, ticket == nil)
				queues[name] = append(waiting, ticket)
			} else {
				i := rapid.IntRange(0, len(waiting)-1).Draw(t, "leaves")
				q.Leave(NameOf([]string{name}), waiting[i])
				queues[name] = slices.Delete(waiting, i, i+1)
			}
			for _, waiting := range queues {
				for i, ticket := range waiting {
					if hasTurn(ticket) != (i == 0) {
						t.Fatalf("number %d of %d: turn %v", i, len(waiting), hasTurn(ticket))
					}
				}
			}
		}
	})
}

func TestThoseBehindLearnWhyTheFirstStillWaits(t *testing.T) {
	var q Queue
	name, other := NameOf([]string{"a"}), NameOf([]string{"b"})
	require.Nil(t, q.Join(name))
	second := q.Join(name)
	require.NoError(t, q.Trouble(name))
	taken := errors.New("taken")
	q.Report(name, taken)
	assert.Equal(t, taken, q.Trouble(name))
	assert.NoError(t, q.Trouble(other))
	q.Leave(name, nil)
	assert.Equal(t, taken, q.Trouble(name), "until the next one reports")
	q.Leave(name, second)
	assert.NoError(t, q.Trouble(name))
	q.Join(other)
	assert.NoError(t, q.Trouble(other), "a queue that is used again begins anew")
}

func TestQueuesAreOfTheSameNamesInTheSameOrder(t *testing.T) {
	names := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "1:a", "1:a1:b", ":", "", "3:1:a"}), 1, 4)
	rapid.Check(t, func(t *rapid.T) {
		a, b := names.Draw(t, "a"), names.Draw(t, "b")
		if (NameOf(a) == NameOf(b)) != slices.Equal(a, b) {
			t.Fatalf("%q and %q: %v and %v", a, b, NameOf(a), NameOf(b))
		}
	})
}

func TestTheFirstOfACrowdPollsAndTheNextTakesItsPlace(t *testing.T) {
	var crowds Crowds
	var wakeups []*Wakeup
	var members []*InCrowd
	for range 4 {
		w := NewWakeup()
		wakeups, members = append(wakeups, w), append(members, crowds.Join("a", w))
	}
	other := crowds.Join("b", NewWakeup())
	asked := func() (who []int) {
		for i, w := range wakeups {
			if len(w.Again) > 0 {
				who = append(who, i)
			}
			w.ClearAgain()
		}
		return who
	}
	assert.True(t, other.Polls())
	for i, in := range members {
		assert.Equal(t, i == 0, in.Polls())
	}
	members[1].Leave(false)
	assert.Empty(t, asked(), "it did not poll")
	members[0].Leave(false)
	assert.Equal(t, []int{2}, asked(), "the next one polls from now on")
	assert.True(t, members[2].Polls())
	last := crowds.Join("a", wakeups[0])
	members[3].Leave(true)
	assert.Equal(t, []int{0, 2}, asked(), "it had not been told that the lock is theirs")
	members[2].Leave(true)
	last.Leave(false)
	other.Leave(false)
	assert.Empty(t, crowds.byKey)
}

// release is one whose coordinator's vote is in or not.
type release struct{ voted bool }

func (r *release) AwaitVote(int) bool { return !r.voted }

func TestAPendingReleaseIsAwaited(t *testing.T) {
	const limit, early = time.Second, 300 * time.Millisecond
	for name, test := range map[string]struct {
		during func(p *Pending, r *release, cancel, closing func())
		want   time.Duration
	}{
		"until its limit":               {func(*Pending, *release, func(), func()) {}, limit},
		"until the coordinator answers": {func(p *Pending, r *release, _, _ func()) { p.Answered("a", r) }, early},
		"not by another's answer":       {func(p *Pending, _ *release, _, _ func()) { p.Answered("a", &release{}) }, limit},
		"not by another key's":          {func(p *Pending, r *release, _, _ func()) { p.Answered("b", r) }, limit},
		"until ctx ends":                {func(_ *Pending, _ *release, cancel, _ func()) { cancel() }, early},
		"until the Locker is closed":    {func(_ *Pending, _ *release, _, closing func()) { closing() }, early},
		"beside a later one of the key": {func(p *Pending, r *release, _, _ func()) {
			p.Add("a", &release{}, 0, 0)
			p.Answered("a", r)
		}, limit},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				clk, began := clocktest.New(), time.Now()
				var p Pending
				r := &release{}
				p.Add("a", r, 0, clk.Now().Add(limit))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				closing := make(chan struct{})
				time.AfterFunc(early, func() { test.during(&p, r, cancel, func() { close(closing) }) })
				p.Await(ctx, closing, clk, "a")
				assert.Equal(t, test.want, time.Since(began))
				time.Sleep(limit) // the timer of this test runs in its bubble
			})
		})
	}
}

func TestWhatIsNotPendingIsNotAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clk, began := clocktest.New(), time.Now()
		var p Pending
		p.Await(t.Context(), nil, clk, "a")
		p.Add("a", &release{voted: true}, 0, clk.Now().Add(time.Second))
		p.Await(t.Context(), nil, clk, "a")
		r := &release{}
		p.Add("a", r, 0, clk.Now().Add(time.Second))
		p.Await(t.Context(), nil, clk, "b")
		assert.Zero(t, time.Since(began))
		time.Sleep(time.Second)
		p.Await(t.Context(), nil, clk, "a")
		assert.Equal(t, time.Second, time.Since(began), "past its limit")
		p.Answered("a", r)
		p.Answered("a", r)
		assert.Nil(t, p.slot("a").release)

		p.Add("a", &release{}, 0, clk.Now().Add(time.Second))
		other := ""
		for i := 0; p.slot(other) != p.slot("a"); i++ {
			other = fmt.Sprint(i)
		}
		p.Await(t.Context(), nil, clk, other)
		p.Add(other, &release{}, 0, clk.Now().Add(time.Second))
		p.Await(t.Context(), nil, clk, "a")
		assert.Equal(t, time.Second, time.Since(began), "another key has its slot")
	})
}

func keys(keys ...string) func() []string { return func() []string { return keys } }

func TestAHandOverIsRecordedUntilItsNodeHasNoWaiter(t *testing.T) {
	for name, how := range map[string]quorum.Vote{"handed over": quorum.Handed, "left to others": quorum.Spared} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := Record{clock: clocktest.New()}
				contended := func() bool { return r.Contended("p:", []string{"x", "a"}) }
				assert.False(t, contended())
				r.Released(1, quorum.Granted, func() []string { panic("nothing is marked: keys do not matter") })
				r.Released(1, how, keys("p:a"))
				assert.True(t, contended())
				assert.False(t, r.Contended("p:", []string{"b"}))
				assert.False(t, r.Contended("", []string{"a"}))
				r.Released(1, quorum.Granted, keys("p:a"))
				assert.True(t, contended(), "the other one may be on its way")
				time.Sleep(markMin + time.Millisecond)
				r.Released(0, quorum.Granted, keys("p:a"))
				assert.True(t, contended(), "another node does not know")
				r.Released(1, quorum.Refused, keys("p:a"))
				assert.True(t, contended(), "a refusal says nothing")
				r.Released(1, quorum.Granted, keys("p:a"))
				assert.False(t, contended())
			})
		})
	}
}

func TestMarksAreBoundedAndExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := Record{clock: clocktest.New()}
		for i := range maxMarks {
			r.Mark(strconv.Itoa(i), 0)
		}
		r.Mark("one more", 0)
		assert.False(t, r.Contended("", []string{"one more"}))
		r.Mark("0", 0)
		assert.True(t, r.Contended("", []string{"0"}), "one that is there can be marked again")
		time.Sleep(markLife)
		assert.True(t, r.Contended("", []string{"0"}))
		time.Sleep(time.Millisecond)
		assert.False(t, r.Contended("", []string{"0"}), "nobody has come back for it")
		r.Mark("one more", 0)
		assert.True(t, r.Contended("", []string{"one more"}), "expired ones make room")
		assert.Len(t, r.marks, 1)
	})
}

func TestANodeThatIsLateTwiceInARowOrFailsIsPassedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clk := clocktest.New()
		p := &Coordinators{clock: clk}
		const fast, slow = time.Millisecond, 30 * time.Millisecond
		isOpen := func() bool { return p.breaker.open(clk.Now()) == quorum.Only(0) }
		assert.False(t, p.Judge(0, time.Second, true), "nobody knows what is usual")
		p.Took(fast)
		for range 3 {
			assert.False(t, p.Judge(0, slow, true), "late for the first time")
			assert.False(t, isOpen())
			assert.False(t, p.Judge(0, fast, true))
		}
		assert.False(t, p.Judge(0, slow, true))
		assert.True(t, p.Judge(0, slow, true))
		assert.True(t, isOpen())
		time.Sleep(tripMin + time.Millisecond)
		assert.False(t, isOpen())
		assert.True(t, p.Judge(0, slow, true), "once is enough: it has not been well since")
		time.Sleep(2*tripMin - time.Millisecond)
		assert.True(t, isOpen(), "twice as long")
		time.Sleep(2 * time.Millisecond)
		assert.False(t, isOpen())
		assert.False(t, p.Judge(0, fast, true))
		assert.False(t, p.Judge(0, slow, true), "it was well since")
		assert.False(t, p.Judge(0, fast, true))
		assert.True(t, p.Judge(0, slow, false), "no answer")
		assert.True(t, isOpen())
	})
}

func TestAMessageAboutAPermitHasItsSlot(t *testing.T) {
	slot, value, ok := readPermit("#12 ABC d|e f")
	assert.True(t, ok)
	assert.Equal(t, int32(12), slot)
	assert.Equal(t, "ABC d|e f", value)
	for _, message := range []string{"", "#", "ABC", "#1", "#-1 ABC", "#x ABC", "#0 ABC", "# ABC", "?ABC"} {
		_, _, ok := readPermit(message)
		assert.False(t, ok, message)
	}
}
