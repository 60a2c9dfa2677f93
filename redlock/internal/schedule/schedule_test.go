package schedule

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/clock/clocktest"
)

type task struct {
	name  string
	entry Entry
}

func (t *task) ref() *Entry { return &t.entry }

// call is one call of due.
type call struct {
	after time.Duration
	names string
}

// newSchedule returns a schedule that sends its calls on a channel.
func newSchedule(clk clock.Clock, burst int) (*Schedule[*task], chan call) {
	calls, began := make(chan call, 16), clk.Now()
	s := &Schedule[*task]{}
	s.Init(clk, (*task).ref, burst, func(tasks []*task, now clock.Instant) {
		c := call{after: now.Sub(began).Truncate(time.Millisecond)}
		for _, t := range tasks {
			c.names += t.name
		}
		calls <- c
	})
	return s, calls
}

// collect stops the schedule after a time and returns its calls until then.
func collect(s *Schedule[*task], calls chan call, after time.Duration) (all []call) {
	time.Sleep(after)
	s.Stop()
	close(calls)
	for c := range calls {
		all = append(all, c)
	}
	return all
}

func TestItemsAreCalledWhenTheyAreDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clk := clocktest.New()
		s, calls := newSchedule(clk, 0)
		now := clk.Now()
		a, b, c, d, e := &task{name: "a"}, &task{name: "b"}, &task{name: "c"}, &task{name: "d"}, &task{name: "e"}
		s.Add(c, now.Add(30*time.Second))
		s.Add(a, now.Add(10*time.Second))
		s.Add(b, now.Add(time.Hour))
		s.Add(d, now.Add(5*time.Second))
		s.Add(e, now.Add(30*time.Second))
		s.Add(b, now.Add(20*time.Second)) // earlier than before
		s.Add(a, now.Add(25*time.Second)) // later than before
		s.Remove(d)
		s.Remove(d) // no longer there
		s.Add(&task{name: "never"}, Never)
		assert.Equal(t, 5, s.Len())
		all := collect(s, calls, time.Minute)
		assert.Len(t, all, 3)
		assert.Equal(t, call{20 * time.Second, "b"}, all[0])
		assert.Equal(t, call{25 * time.Second, "a"}, all[1])
		assert.Equal(t, 30*time.Second, all[2].after)
		assert.Len(t, all[2].names, 2, "what is due together comes together")
		assert.Equal(t, 1, s.Len(), "what has been called is off the schedule")
	})
}

func TestManyDueItemsComeInBursts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clk := clocktest.New()
		s, calls := newSchedule(clk, 2)
		for i, name := range []string{"a", "b", "c", "d", "e"} {
			s.Add(&task{name: name}, clk.Now().Add(time.Duration(i))) // nanoseconds apart
		}
		clk.Suspend(time.Second) // all are due when the timer runs
		assert.Equal(t, []call{
			{time.Second, "ab"}, {time.Second + pace, "cd"}, {time.Second + 2*pace, "e"},
		}, collect(s, calls, time.Second))
	})
}

func TestStopWaitsForTheCallUnderWayAndBeginsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clk := clocktest.New()
		proceed, stopped := make(chan struct{}), false
		var s Schedule[*task]
		var calls int
		s.Init(clk, (*task).ref, 1, func([]*task, clock.Instant) {
			calls++
			<-proceed
		})
		s.Add(&task{}, clk.Now().Add(time.Second))
		s.Add(&task{}, clk.Now().Add(time.Hour))
		time.Sleep(time.Minute)
		synctest.Wait()
		go func() {
			s.Stop()
			stopped = true
		}()
		synctest.Wait()
		assert.Equal(t, 1, calls)
		assert.False(t, stopped, "a call is under way")
		close(proceed)
		synctest.Wait()
		assert.True(t, stopped)
		s.Add(&task{}, clk.Now())
		time.Sleep(2 * time.Hour)
		assert.Equal(t, 1, calls)
		assert.Len(t, s.All(), 2, "they stay on the schedule")
	})
}

func TestHeapGivesItemsInTheOrderOfTheirTimes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		h := heap[*task]{entry: (*task).ref}
		when := map[*task]clock.Instant{}
		tasks := make([]*task, 1+rng.IntN(60))
		for i := range tasks {
			tasks[i] = &task{}
		}
		for range 300 {
			task := tasks[rng.IntN(len(tasks))]
			if at, on := when[task]; on && rng.IntN(3) == 0 {
				require.Equal(t, at, h.nodes[task.entry.pos-1].at)
				require.Same(t, task, h.remove(int(task.entry.pos)-1))
				require.Zero(t, task.entry.pos)
				delete(when, task)
				continue
			}
			when[task] = clock.Instant(rng.IntN(50))
			h.put(task, when[task])
			require.Len(t, h.nodes, len(when))
			require.Equal(t, slices.Min(slices.Collect(maps.Values(when))), h.nodes[0].at)
		}
		last := clock.Instant(-1)
		for len(h.nodes) > 0 {
			at := h.nodes[0].at
			require.LessOrEqual(t, last, at)
			require.Equal(t, when[h.remove(0)], at)
			last = at
		}
	}
}
