package scenario_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/redlock"
)

// churn locks and unlocks names that nobody else uses, from several goroutines. Whatever happens to
// the nodes meanwhile, no name may ever be taken, no held lock be lost, and no key be left.
type churn struct {
	workers int
	rounds  int           // of each worker
	hold    time.Duration // at most: the random pause after each TryLock
	limit   time.Duration // at most: the random time of each ctx; 0: it never ends
	losing  bool          // all attempts may fail
	seed    uint64
}

// seedOf returns the seed of a run: the one in the environment, to repeat a run, or a new one. A
// failure shows it in its log.
func seedOf(t *testing.T) uint64 {
	t.Helper()
	seed := rand.Uint64()
	if text := os.Getenv("REDQUORUM_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("REDQUORUM_SEED=%d", seed)
	return seed
}

// run returns when the last Unlock has returned, and logs how the calls ended.
func (c churn) run(t *testing.T, l *redlock.Locker) {
	t.Helper()
	var acquired, released outcomes
	var all sync.WaitGroup
	for worker := range c.workers {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(c.seed, uint64(worker)))
			for round := range c.rounds {
				c.once(t, l, rng, fmt.Sprintf("%s/%d/%d", cluster.LockName(t), worker, round), &acquired, &released)
			}
		})
	}
	all.Wait()
	t.Logf("TryLock: %s; Unlock: %s", &acquired, &released)
	if acquired.ok == 0 && !c.losing {
		t.Error("nothing was ever acquired")
	}
}

func (c churn) once(t *testing.T, l *redlock.Locker, rng *rand.Rand, name string, acquired, released *outcomes) {
	ctx, cancel := t.Context(), context.CancelFunc(func() {})
	if c.limit > 0 {
		ctx, cancel = context.WithTimeout(ctx, upTo(rng, c.limit))
	}
	defer cancel()
	lock, err := l.TryLock(ctx, name)
	if acquired.add(ctx, err) == unexpected {
		t.Errorf("seed %d: TryLock(%q): %v", c.seed, name, err)
	}
	if c.hold > 0 {
		time.Sleep(upTo(rng, c.hold))
	}
	if err != nil {
		return
	}
	err = lock.Unlock(ctx)
	if released.add(ctx, err) == unexpected {
		t.Errorf("seed %d: Unlock(%q): %v", c.seed, name, err)
	}
}

// outcomes counts how calls ended.
type outcomes struct {
	mu                                      sync.Mutex // guards the fields below
	ok, noQuorum, noValidity, ended, broken int
}

type outcome int

const (
	expected outcome = iota
	unexpected
)

func (o *outcomes) add(ctx context.Context, err error) outcome {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case err == nil:
		o.ok++
	case errors.Is(err, redlock.ErrTaken), errors.Is(err, redlock.ErrLost):
		o.broken++
		return unexpected
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		o.ended++
	case errors.Is(err, redlock.ErrNoQuorum):
		o.noQuorum++
	case errors.Is(err, redlock.ErrNoValidity):
		o.noValidity++
	default:
		o.broken++
		return unexpected
	}
	return expected
}

func (o *outcomes) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return fmt.Sprintf("%d ok, %d no quorum, %d no validity, %d ended by ctx, %d unexpected", o.ok, o.noQuorum, o.noValidity, o.ended, o.broken)
}

// disturb calls harm again and again, with random pauses below pause, until the function that it
// returns is called. That function returns how often harm was called.
func disturb(seed uint64, pause time.Duration, harm func(rng *rand.Rand)) (stop func() int) {
	ending, times := make(chan struct{}), make(chan int)
	go func() {
		rng := rand.New(rand.NewPCG(seed, 1<<63))
		for n := 0; ; n++ {
			select {
			case <-ending:
				times <- n
				return
			case <-time.After(upTo(rng, pause)):
				harm(rng)
			}
		}
	}()
	return func() int {
		close(ending)
		return <-times
	}
}

// upTo returns a random duration below d.
func upTo(rng *rand.Rand, d time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(d))) }
