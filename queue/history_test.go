package queue_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/fakeredis"
	"github.com/redquorum/redquorum/internal/proof/history"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/queue"
)

// worker enqueues and pops a few tasks at random, and records that.
type worker struct {
	*user
	rng  *rand.Rand
	past *history.Recorder
}

const workerTasks = 4

func (w *worker) work() {
	for range 30 {
		short, cancel := context.WithTimeout(ctx, time.Duration(w.rng.IntN(2000))*time.Millisecond)
		if w.rng.IntN(2) == 0 {
			w.enqueue(short)
		} else {
			w.pop(short)
		}
		cancel()
		time.Sleep(time.Duration(w.rng.IntN(50)) * time.Millisecond)
	}
}

func (w *worker) enqueue(ctx context.Context) {
	id := fmt.Sprint("task", w.rng.IntN(workerTasks))
	call := w.past.Invoke(w.w.clock.Now(), history.Operation{Function: history.Enqueue, Name: "q", Task: id})
	err := w.Enqueue(ctx, []string{id}, 0)
	call.Return(w.w.clock.Now(), outcomeOf(err), 0)
}

// pop records a removal of each task that it gets: nobody says which ones it asked for.
func (w *worker) pop(ctx context.Context) {
	since := w.w.clock.Now()
	tasks, err := w.Pop(ctx, 1+w.rng.IntN(2))
	for _, task := range tasks {
		call := w.past.Invoke(since, history.Operation{Function: history.Dequeue, Name: "q", Task: task.ID})
		call.Return(w.w.clock.Now(), outcomeOf(err), 0)
	}
}

func outcomeOf(err error) history.Type {
	var call *pool.CallError
	switch {
	case err == nil:
		return history.OK
	case errors.As(err, &call) && call.Fate == pool.Unknown:
		return history.Info
	default:
		return history.Fail
	}
}

// breaks loses messages to and from the store, and connections, until done is closed.
func (w *world) breaks(rng *rand.Rand, done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		case <-time.After(time.Duration(rng.IntN(300)) * time.Millisecond):
		}
		switch rng.IntN(5) {
		case 0:
			w.store.LoseReplies(1 + rng.IntN(3))
		case 1:
			w.store.LoseRequests(1 + rng.IntN(3))
		case 2:
			w.store.CutAfterWrite(1)
		case 3:
			w.store.Restart(true)
		case 4:
			w.store.MuteReplies(true)
			time.Sleep(time.Duration(rng.IntN(2000)) * time.Millisecond)
			w.store.MuteReplies(false)
		}
	}
}

// Whatever is lost on the way to the store, what happened to each task fits an order in which one
// thing happens at a time: no task is popped twice, and none that was not there.
func TestEachTaskIsPoppedAtMostOnceWhateverIsLost(t *testing.T) {
	seed := rand.Uint64()
	var past history.Recorder
	inBubble(t, func(w *world, _ *user) {
		for _, node := range append(fakeredis.Cluster{w.store}, w.masters...) {
			delay := func() time.Duration { return rand.N(2 * time.Millisecond) }
			node.Delay(delay, delay)
		}
		var all, beside sync.WaitGroup
		for i := range 4 {
			one := &worker{w.queue(queue.WithTimeout(500 * time.Millisecond)), rand.New(rand.NewPCG(seed, uint64(i))), &past}
			all.Go(one.work)
		}
		done := make(chan struct{})
		beside.Go(func() { w.breaks(rand.New(rand.NewPCG(seed, 100)), done) })
		all.Wait()
		close(done)
		beside.Wait()
	})
	events := past.History()
	assert.Equal(t, history.Legal, history.Check(events, history.Queue), "seed %d", seed)

	count := map[history.Type]int{}
	for _, e := range events {
		count[e.Type]++
	}
	t.Logf("seed %d: %v", seed, count)
	assert.Positive(t, count[history.OK], "seed %d: %v", seed, count)
}

// handled is what became of a task, as its handlers know.
type handled struct {
	attempts []int
	done     bool
}

// Whatever is lost on the way to the store, whatever handlers do, and though workers are as good as
// dead for a while: each task ends, done or dead with its errors, and none has an attempt too many.
func TestEachTaskIsDoneOrDeadWhateverIsLost(t *testing.T) {
	const limit, count = 4, 120
	seed := rand.Uint64()
	var mu sync.Mutex
	all := map[string]*handled{}
	inBubble(t, func(w *world, q *user) {
		handler := func(ctx context.Context, task queue.Task) error {
			mu.Lock()
			h := all[task.ID]
			h.attempts = append(h.attempts, task.Attempt)
			luck := rand.IntN(10)
			mu.Unlock()
			switch {
			case luck < 2:
				panic("a bug")
			case luck < 5:
				return fmt.Errorf("%s: not yet", task.ID)
			case luck == 5:
				time.Sleep(11 * time.Second) // longer than its lease
				return ctx.Err()
			}
			time.Sleep(time.Duration(luck) * 100 * time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			h.done = true
			return nil
		}
		var runs []*workers
		for range 3 {
			runs = append(runs, w.queue(queue.WithTimeout(500*time.Millisecond)).running(handler, queue.WithMaxAttempts(limit),
				queue.WithBackoff(100*time.Millisecond, 5*time.Second), queue.WithLease(10*time.Second), queue.WithFailed(func(*queue.TaskError) {})))
		}
		done, over := make(chan struct{}), make(chan struct{})
		go func() { defer close(over); w.breaks(rand.New(rand.NewPCG(seed, 100)), done) }()
		for i := range count {
			id := fmt.Sprint(i)
			mu.Lock()
			all[id] = &handled{}
			mu.Unlock()
			for q.Add(ctx, []queue.Item{{ID: id, Payload: []byte(id)}}, 0) != nil {
				time.Sleep(100 * time.Millisecond)
			}
		}
		time.Sleep(2 * time.Minute)
		close(done)
		<-over
		time.Sleep(2 * time.Minute) // whatever was lost, its lease is over
		for _, run := range runs {
			run.end()
		}
		require.Empty(t, w.ids(), "seed %d: no task is left", seed)
		dead := map[string]bool{}
		for _, letter := range q.letters() {
			dead[letter.ID] = true
			assert.Equal(t, limit, letter.Attempts, "seed %d", seed)
			assert.NotEmpty(t, letter.Errors, "seed %d: task %s", seed, letter.ID)
			assert.Equal(t, letter.ID, string(letter.Payload))
		}
		for id, h := range all {
			assert.True(t, h.done || dead[id], "seed %d: task %s is neither done nor dead: %v", seed, id, h.attempts)
			assert.LessOrEqual(t, len(h.attempts), 2*limit, "seed %d: task %s", seed, id) // twice: Add may have been repeated
			for _, attempt := range h.attempts {
				assert.LessOrEqual(t, attempt, limit, "seed %d: task %s", seed, id)
			}
		}
		t.Logf("seed %d: %d of %d tasks are dead", seed, len(dead), count)
		assert.NotEmpty(t, dead)
	})
}
