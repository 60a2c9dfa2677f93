package contention

import (
	"context"
	"encoding/gob"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"
)

// RunWorker must be the first call of TestMain or main. In a process that a measurement has
// started, it does the work of a worker and ends the process; in any other, it returns at once.
// Openers are keyed by the name in [Scenario.Mutex].
func RunWorker(openers map[string]Opener) {
	text, found := os.LookupEnv(specVariable)
	if !found {
		return
	}
	w := &worker{orders: make(chan order), out: gob.NewEncoder(os.Stdout)}
	go w.receive() // ends with the process
	if err := w.work(openers, text); err != nil {
		w.send(message{Failure: err.Error()})
		os.Exit(1)
	}
	os.Exit(0)
}

// worker is one process of a measurement, seen from inside.
type worker struct {
	spec    spec
	mutex   Mutex
	readers ReadLocker // the same, or nil
	sent    commandCounter
	orders  chan order // written by receive

	mu  sync.Mutex // held to send one message
	out *gob.Encoder
}

// receive takes the parent's orders. When the parent is gone, the process ends.
func (w *worker) receive() {
	in := gob.NewDecoder(os.Stdin)
	for {
		var next order
		if err := in.Decode(&next); err != nil {
			os.Exit(1)
		}
		w.orders <- next
	}
}

// send has nobody to report a failure to: without a parent, receive ends the process.
func (w *worker) send(m message) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.out.Encode(m); err != nil {
		os.Exit(1)
	}
}

// openTimeout bounds connecting; many processes start at once.
const openTimeout = 30 * time.Second

func (w *worker) work(openers map[string]Opener, text string) error {
	if err := json.Unmarshal([]byte(text), &w.spec); err != nil {
		return err
	}
	open, found := openers[w.spec.Mutex]
	if !found {
		return fmt.Errorf("contention: this program knows no mutex %q", w.spec.Mutex)
	}
	ctx, cancel := context.WithTimeout(context.Background(), openTimeout)
	defer cancel()
	mutex, err := open(ctx, Setup{
		Addresses: w.spec.Addresses, Name: w.spec.Name, Goroutines: w.spec.Goroutines, Permits: w.spec.Permits,
		TTL: w.spec.TTL, Patience: w.spec.Patience, Dial: w.sent.dial,
	})
	if err != nil {
		return fmt.Errorf("open %s: %w", w.spec.Mutex, err)
	}
	w.mutex = mutex
	readers, reads := mutex.(ReadLocker)
	if w.spec.Reads > 0 && !reads {
		return fmt.Errorf("contention: %s cannot be shared", w.spec.Mutex)
	}
	w.readers = readers
	w.send(message{Ready: true})
	times := (<-w.orders).Run
	if w.spec.Forever {
		return w.holdForever()
	}
	r, err := w.contend(times)
	if err != nil {
		return err
	}
	if err := mutex.Close(); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	w.send(message{Report: r})
	return nil
}

// holdForever locks and never unlocks. It returns only if locking fails.
func (w *worker) holdForever() error {
	ended := make(chan error, 1)
	go func() {
		_, err := w.mutex.Lock(context.Background())
		if err != nil {
			ended <- err
			return
		}
		w.send(message{Held: now()})
	}()
	for {
		select {
		case err := <-ended:
			return err
		case next := <-w.orders:
			if next.Count {
				w.send(message{Count: &count{At: now(), Sent: w.sent.total.Load()}})
			}
		}
	}
}

// contend measures.
func (w *worker) contend(times *run) (*report, error) {
	w.sent.window(times.Begin, times.End)
	ctx, cancel := context.WithTimeout(context.Background(), times.End.Sub(now()))
	defer cancel()
	r := &report{Turns: make([][]turn, w.spec.Goroutines)}
	var mu sync.Mutex // guards the unlock errors of r, and failure
	var failure error
	var all sync.WaitGroup
	for i := range w.spec.Goroutines {
		all.Go(func() {
			sleepUntil(times.From)
			turns, err := w.takeTurns(ctx, func(err error) {
				mu.Lock()
				defer mu.Unlock()
				if r.UnlockErrors++; r.UnlockErrors == 1 {
					r.UnlockError = err.Error()
				}
			})
			r.Turns[i] = turns
			if err != nil {
				mu.Lock()
				defer mu.Unlock()
				failure = err
				cancel()
			}
		})
	}
	sleepUntil(times.Begin)
	before := w.mutex.Counters()
	sleepUntil(times.End)
	r.Counters = w.mutex.Counters()
	for name, n := range before {
		r.Counters[name] -= n
	}
	all.Wait()
	r.Commands = w.sent.inWindow.Load()
	return r, failure
}

// unlockTimeout bounds the release, which ctx does not.
const unlockTimeout = 5 * time.Second

// takeTurns locks and unlocks until ctx ends. A lock that fails before that is an error; an unlock
// that fails is noted.
func (w *worker) takeTurns(ctx context.Context, note func(error)) (turns []turn, err error) {
	for ctx.Err() == nil {
		t := turn{Read: rand.Float64() < w.spec.Reads, Asked: now()}
		lock := w.mutex.Lock
		if t.Read {
			lock = w.readers.RLock
		}
		unlock, err := lock(ctx)
		if err != nil {
			if ctx.Err() == nil {
				return turns, fmt.Errorf("lock: %w", err)
			}
			t.Released = now()
			return append(turns, t), nil
		}
		t.Acquired = now()
		if w.spec.Hold > 0 {
			time.Sleep(w.spec.Hold)
		}
		t.Released = now()
		turns = append(turns, t)
		if err := release(ctx, unlock); err != nil {
			note(err)
		}
	}
	return turns, nil
}

func release(ctx context.Context, unlock func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unlockTimeout)
	defer cancel()
	return unlock(ctx)
}
