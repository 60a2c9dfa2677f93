//go:build linux

package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// Options of all clients. They are short, so that much can happen in little time.
const (
	ttl         = 1500 * time.Millisecond
	maxTTL      = 2 * time.Second
	nodeTimeout = 150 * time.Millisecond
	minHold     = 600 * time.Millisecond
)

// clientVariable makes a process a client, see [brief].
const clientVariable = "REDQUORUM_CHAOS_CLIENT"

// brief is what a client is told.
type brief struct {
	ID      int
	Foreign bool
	Nodes   []string
	Store   string // of the queues
	File    string
	Seed    uint64
}

func (b *brief) encode() string {
	text, err := json.Marshal(b)
	if err != nil {
		panic(err) // strings and numbers only
	}
	return clientVariable + "=" + string(text)
}

// runClient is a client, until its input ends.
func runClient(text string) error {
	var b brief
	if err := json.Unmarshal([]byte(text), &b); err != nil {
		return err
	}
	journal, err := newJournal(b.File)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { // ends with the process
		_, err := io.Copy(io.Discard, os.Stdin)
		cancel()
		if err != nil {
			journal.odd(err.Error())
		}
	}()
	if b.Foreign {
		return runForeign(ctx, &b, journal)
	}
	return runOurs(ctx, &b, journal)
}

func newLocker(nodes []string) (*redlock.Locker, error) {
	return redlock.New(nodes, redlock.WithTTL(ttl), redlock.WithMaxTTL(maxTTL), redlock.WithNodeTimeout(nodeTimeout),
		redlock.WithRetry(20*time.Millisecond, 200*time.Millisecond),
		redlock.WithPool(pool.WithDialTimeout(300*time.Millisecond), pool.WithBackoff(10*time.Millisecond, 200*time.Millisecond)))
}

// client is a process that uses the library in all ways.
type client struct {
	*brief
	locker  *redlock.Locker
	journal *journal
}

// runOurs runs all uses at once.
func runOurs(ctx context.Context, b *brief, j *journal) error {
	locker, err := newLocker(b.Nodes)
	if err != nil {
		return err
	}
	c := &client{b, locker, j}
	var workers sync.WaitGroup
	number := uint64(0)
	for _, use := range uses {
		for range use.workers {
			number++
			rng := rand.New(rand.NewPCG(b.Seed, number))
			workers.Go(func() { use.run(ctx, c, rng) })
		}
	}
	workers.Wait()
	if err := locker.Close(); !errors.Is(err, redlock.ErrUndelivered) {
		return err
	}
	return nil
}

// upTo returns a random duration.
func upTo(rng *rand.Rand, d time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(d))) }

// pause waits unless ctx has ended.
func pause(ctx context.Context, d time.Duration) { clock.Sleep(ctx, clock.System(), d) }

// attempt is a way to acquire a lock.
type attempt func(ctx context.Context, rng *rand.Rand) (*redlock.Lock, error)

// lockUse is a use that acquires and releases, for ever. Most calls have much time, and most
// holds are short.
func lockUse(kind string, workers int, longest time.Duration, way func(c *client) attempt) use {
	return use{kind: kind, workers: workers, run: func(ctx context.Context, c *client, rng *rand.Rand) {
		acquire := way(c)
		for ctx.Err() == nil {
			limit := 4 * time.Second
			if rng.IntN(20) == 0 {
				limit = upTo(rng, 20*time.Millisecond)
			}
			called := now()
			callCtx, cancel := context.WithTimeout(ctx, limit)
			lock, err := acquire(callCtx, rng)
			cancel()
			if err != nil {
				c.failed(kind, err)
				pause(ctx, upTo(rng, 10*time.Millisecond))
				continue
			}
			d := upTo(rng, longest)
			if rng.IntN(100) == 0 {
				d = upTo(rng, ttl)
			}
			c.hold(ctx, kind, called, lock, d)
		}
	}}
}

// failed notes an error that no fault explains.
func (c *client) failed(kind string, err error) {
	for _, known := range []error{
		redlock.ErrTaken, redlock.ErrNoQuorum, redlock.ErrNoValidity, redlock.ErrLost, context.Canceled, context.DeadlineExceeded,
	} {
		if errors.Is(err, known) {
			return
		}
	}
	c.journal.odd(kind + ": " + err.Error())
}

// hold holds a lock for some time, and releases it.
func (c *client) hold(ctx context.Context, kind string, called clock.Instant, lock *redlock.Lock, d time.Duration) {
	got := now()
	left := lock.Remaining()
	h := event{
		Type: gotEvent, ID: c.journal.ids.Add(1), At: got, Kind: kind, Names: lock.Names(), Call: called, Until: got.Add(left),
		Token: lock.Fence(), Value: lock.Value(), Shared: lock.Shared(),
	}
	if kind == "any" { // the names that it did not get are nobody's
		h.Names = []string{lock.Name()}
	}
	if _, err := fmt.Sscanf(lock.Name(), "permit%d#", &h.Permits); err == nil {
		h.Names = []string{lock.Name()}
	}
	h.Begin = min(max(called, h.Until.Add(drift().Of(ttl)-ttl)), got)
	if kind == "minhold" {
		h.Taken = h.Until.Add(drift().Of(ttl) - ttl + minHold - drift().Of(minHold) - time.Millisecond)
	}
	if left <= 0 {
		h.Type = voidEvent
	}
	c.journal.write(h)
	if left > 0 {
		end := c.watch(ctx, h, lock, got.Add(d))
		c.journal.write(event{Type: endEvent, ID: h.ID, At: end})
	}
	if err := lock.Unlock(context.WithoutCancel(ctx)); err != nil {
		c.failed(kind, err)
	}
}

// watch uses a lock until an instant, and returns until when this process was sure of it.
func (c *client) watch(ctx context.Context, h event, lock *redlock.Lock, till clock.Instant) clock.Instant {
	last := h.At
	for {
		at := now()
		left := lock.Remaining()
		if left <= 0 {
			if strings.Contains(fmt.Sprint(lock.Err()), "validity has ended") {
				return h.Until
			}
			return last // it was lost before, and this process was told
		}
		last = at
		if at >= till || ctx.Err() != nil {
			return at
		}
		if until := at.Add(left); until.Sub(h.Until) > 50*time.Millisecond {
			h.Until = until
			c.journal.write(event{Type: renewedEvent, ID: h.ID, At: at, Until: until})
		}
		pause(ctx, min(till.Sub(at), 20*time.Millisecond))
	}
}

// drift is the allowance of all clients: the library's default.
func drift() clock.Drift {
	d, err := clock.NewDrift(0.01, 2*time.Millisecond)
	if err != nil {
		panic(err)
	}
	return d
}
