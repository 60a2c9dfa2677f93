package contention

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/child"
)

// Play must be the first call of TestMain. In a process that a measurement has started, it does the
// work of a worker and ends the process; in any other, it returns at once. Openers are keyed by the
// name in [Scenario.Mutex].
func Play(openers map[string]Opener) {
	roles := make(map[string]child.Role)
	for name, open := range openers {
		roles[name] = func(self *child.Self) { (&worker{self: self}).work(open) }
	}
	child.Play(roles)
}

// task is what a worker is started with, in JSON.
type task struct {
	Name    string
	Setup   Setup
	Reads   float64
	Hold    time.Duration
	Forever bool // one goroutine locks once, and holds until the process is killed
}

// run is the times of a measurement: the first line of the parent, in JSON.
type run struct {
	From  Instant // when workers first ask for locks
	Begin Instant // of the window
	End   Instant // of the window, and of all waits
}

// message is a line that a worker says, in JSON. It is ready when it says an empty one.
type message struct {
	Held Instant // with Forever: since when it has held the name

	// With Forever, the answer to every further line of the parent: how many commands it has sent.
	At   Instant
	Sent uint64

	Goroutine int
	Turns     []turn  // of the goroutine, in order; more may follow
	Report    *report // the last message
}

// report is what a worker did.
type report struct {
	Turns        [][]turn `json:"-"` // by goroutine, in order
	Commands     uint64   // sent within the window
	UnlockErrors int
	UnlockError  string            // the first
	Counters     map[string]uint64 // their growth within the window
}

// turn is one goroutine's wait and hold.
type turn struct {
	Read     bool
	Asked    Instant
	Acquired Instant // 0 if the measurement ended first
	Released Instant // when the release began or, if nothing was acquired, when the wait ended
}

// turnsPerLine keeps the lines of a worker short.
const turnsPerLine = 1000

// worker is one process of a measurement, seen from inside.
type worker struct {
	self  *child.Self
	task  task
	mutex Mutex
	sent  commandCounter
}

func (w *worker) say(m message) {
	text, err := json.Marshal(m)
	require.NoError(w.self, err)
	w.self.Tell(string(text))
}

// openTimeout bounds connecting; many processes start at once.
const openTimeout = 30 * time.Second

func (w *worker) work(open Opener) {
	require.NoError(w.self, json.Unmarshal([]byte(w.self.Args[0]), &w.task))
	ctx, cancel := context.WithTimeout(context.Background(), openTimeout)
	defer cancel()
	w.task.Setup.Dial = w.sent.dial
	mutex, err := open(ctx, w.task.Setup)
	require.NoError(w.self, err)
	w.mutex = mutex
	w.say(message{})
	var times run
	require.NoError(w.self, json.Unmarshal([]byte(<-w.self.Heard()), &times))
	if w.task.Forever {
		w.holdForever()
		return
	}
	r := w.contend(&times)
	require.NoError(w.self, mutex.Close())
	for goroutine, turns := range r.Turns {
		for part := range slices.Chunk(turns, turnsPerLine) {
			w.say(message{Goroutine: goroutine, Turns: part})
		}
	}
	w.say(message{Report: r})
}

// holdForever locks and never unlocks.
func (w *worker) holdForever() {
	go func() {
		_, err := w.mutex.Lock(context.Background(), w.task.Name)
		require.NoError(w.self, err)
		w.say(message{Held: now()})
	}()
	for range w.self.Heard() {
		w.say(message{At: now(), Sent: w.sent.total.Load()})
	}
}

func (w *worker) counters() map[string]uint64 {
	if c, ok := w.mutex.(interface{ Counters() map[string]uint64 }); ok {
		return c.Counters()
	}
	return nil
}

// contend measures.
func (w *worker) contend(times *run) *report {
	w.sent.window(times.Begin, times.End)
	ctx, cancel := context.WithTimeout(context.Background(), times.End.Sub(now()))
	defer cancel()
	r := &report{Turns: make([][]turn, w.task.Setup.Goroutines)}
	var mu sync.Mutex // guards the unlock errors of r
	var all sync.WaitGroup
	for i := range r.Turns {
		all.Go(func() {
			sleepUntil(times.From)
			r.Turns[i] = w.takeTurns(ctx, func(err error) {
				mu.Lock()
				defer mu.Unlock()
				if r.UnlockErrors++; r.UnlockErrors == 1 {
					r.UnlockError = err.Error()
				}
			})
		})
	}
	sleepUntil(times.Begin)
	before := w.counters()
	sleepUntil(times.End)
	r.Counters = w.counters()
	for name, n := range before {
		r.Counters[name] -= n
	}
	all.Wait()
	r.Commands = w.sent.inWindow.Load()
	return r
}

// unlockTimeout bounds the release, which ctx does not.
const unlockTimeout = 5 * time.Second

// takeTurns locks and unlocks until ctx ends. A lock that fails before that ends the process; an
// unlock that fails is noted.
func (w *worker) takeTurns(ctx context.Context, note func(error)) (turns []turn) {
	for ctx.Err() == nil {
		t := turn{Read: rand.Float64() < w.task.Reads, Asked: now()}
		lock := w.mutex.Lock
		if t.Read {
			lock = w.mutex.(ReadLocker).RLock
		}
		held, err := lock(ctx, w.task.Name)
		if err != nil {
			if ctx.Err() == nil {
				require.NoError(w.self, err, "lock")
			}
			t.Released = now()
			return append(turns, t)
		}
		t.Acquired = now()
		if w.task.Hold > 0 {
			time.Sleep(w.task.Hold)
		}
		t.Released = now()
		turns = append(turns, t)
		if err := release(ctx, held); err != nil {
			note(err)
		}
	}
	return turns
}

func release(ctx context.Context, held Unlocker) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unlockTimeout)
	defer cancel()
	return held.Unlock(ctx)
}
