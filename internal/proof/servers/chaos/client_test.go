//go:build linux

package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/proof/history"
	"github.com/redquorum/redquorum/internal/proof/servers/child"
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

// now is the clock that all processes of this machine share.
func now() clock.Instant { return clock.System().Now() }

// pause waits unless ctx has ended.
func pause(ctx context.Context, d time.Duration) { clock.Sleep(ctx, clock.System(), d) }

// upTo returns a random duration.
func upTo(rng *rand.Rand, d time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(d))) }

// drift is the allowance of all clients: the library's default.
func drift() clock.Drift {
	d, err := clock.NewDrift(0.01, 2*time.Millisecond)
	if err != nil {
		panic(err)
	}
	return d
}

// record is what a client tells of a hold or a call: a line in its file. What it tells later under
// the same number replaces it.
type record struct {
	ID   int64         `json:"id,omitempty"`
	Hold *history.Hold `json:"hold,omitempty"`
	Call *call         `json:"call,omitempty"`
	Odd  string        `json:"odd,omitempty"` // something that must not happen
	At   clock.Instant `json:"at,omitempty"`  // of the odd thing
}

// call pushes tasks to a queue, or pops them.
type call struct {
	Function  history.Function
	Queue     string
	Tasks     []string // if it has not returned: that may be pushed
	At        clock.Instant
	Returned  clock.Instant // 0: the client was killed
	Uncertain bool          // it may not have happened
}

// journal is the file of a client. Each record is written at once, so that a killed process has
// told all it did.
type journal struct {
	ids atomic.Int64

	mu   sync.Mutex // guards the file
	file *os.File
}

func newJournal(path string) (*journal, error) {
	file, err := os.Create(path)
	return &journal{file: file}, err
}

func (j *journal) write(r record) {
	line, err := json.Marshal(r)
	if err != nil {
		panic(err) // strings and numbers only
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, err := j.file.Write(append(line, '\n')); err != nil {
		panic(err) // without its file the client proves nothing
	}
}

// readJournal returns the last records of a client of each number. The last line of a killed one
// may be torn.
func readJournal(path string) (records []*record, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	byID := make(map[int64]*record)
	for line := range bytes.Lines(text) {
		var r record
		if !bytes.HasSuffix(line, []byte("\n")) {
			break
		}
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("%s: %w: %s", path, err, line)
		}
		if earlier := byID[r.ID]; earlier != nil && r.ID != 0 {
			*earlier = r
			continue
		}
		byID[r.ID] = &r
		records = append(records, &r)
	}
	return records, nil
}

// brief is what a client is told.
type brief struct {
	ID      int
	Foreign bool
	Nodes   []string
	Store   string // of the queues
	File    string
	Seed    uint64
}

// client is a process that uses the library in all ways.
type client struct {
	brief
	*journal

	locker *redlock.Locker
}

// runClient is a client, until its input ends.
func runClient(self *child.Self) {
	c := &client{}
	require.NoError(self, json.Unmarshal([]byte(self.Args[0]), &c.brief))
	var err error
	c.journal, err = newJournal(c.File)
	require.NoError(self, err)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { // ends with the process
		for range self.Heard() {
			c.odd("it was told something")
		}
		cancel()
	}()
	if c.Foreign {
		c.runForeign(ctx)
		return
	}
	c.locker, err = newLocker(c.Nodes)
	require.NoError(self, err)
	var workers sync.WaitGroup
	number := uint64(0)
	for _, use := range uses {
		for range use.workers {
			number++
			rng := rand.New(rand.NewPCG(c.Seed, number))
			workers.Go(func() { use.run(ctx, c, rng) })
		}
	}
	workers.Wait()
	if err := c.locker.Close(); !errors.Is(err, redlock.ErrUndelivered) {
		assert.NoError(self, err)
	}
}

func newLocker(nodes []string) (*redlock.Locker, error) {
	return redlock.New(nodes, redlock.WithTTL(ttl), redlock.WithMaxTTL(maxTTL), redlock.WithNodeTimeout(nodeTimeout),
		redlock.WithRetry(20*time.Millisecond, 200*time.Millisecond),
		redlock.WithPool(pool.WithDialTimeout(300*time.Millisecond), pool.WithBackoff(10*time.Millisecond, 200*time.Millisecond)))
}

func (c *client) odd(text string) { c.write(record{Odd: text, At: now()}) }

// failed notes an error that no fault explains.
func (c *client) failed(kind string, err error) {
	for _, known := range []error{
		redlock.ErrTaken, redlock.ErrNoQuorum, redlock.ErrNoValidity, redlock.ErrLost, context.Canceled, context.DeadlineExceeded,
	} {
		if errors.Is(err, known) {
			return
		}
	}
	c.odd(kind + ": " + err.Error())
}

// holding is a hold of this client. What it has told so far is what counts if it is killed: that it
// has the lock until the end of its validity.
type holding struct {
	*client
	history.Hold

	id int64
}

func (c *client) holding(kind string, names ...string) *holding {
	return &holding{c, history.Hold{Who: fmt.Sprint("client ", c.ID), How: kind, Names: names, Confirmed: true}, c.ids.Add(1)}
}

// until tells that the hold ends then, or has ended: not before the end of its minimum hold.
func (h *holding) until(end clock.Instant) {
	h.To = max(h.From, h.Kept, end)
	h.write(record{ID: h.id, Hold: &h.Hold})
}

// hold holds a lock for some time, and releases it.
func (c *client) hold(ctx context.Context, kind string, called clock.Instant, lock *redlock.Lock, d time.Duration) {
	h := c.holding(kind, lock.Names()...)
	h.From = now()
	left := lock.Remaining()
	valid := h.From.Add(left)
	h.Token, h.Value, h.Shared, h.Late = lock.Fence(), lock.Value(), kind == "read", left <= 0
	if _, err := fmt.Sscanf(lock.Name(), "permit%d#", &h.Permits); err == nil || kind == "any" {
		h.Names = []string{lock.Name()} // the names that it did not get are nobody's
	}
	h.Since = min(max(called, valid.Add(drift().Of(ttl)-ttl)), h.From)
	if kind == "minhold" {
		h.Kept = valid.Add(drift().Of(ttl) - ttl + minHold - drift().Of(minHold) - time.Millisecond)
	}
	h.until(valid)
	if left > 0 {
		h.until(h.watch(ctx, lock, valid, h.From.Add(d)))
	}
	if err := lock.Unlock(context.WithoutCancel(ctx)); err != nil {
		c.failed(kind, err)
	}
}

// watch uses a lock until an instant, and returns until when this process was sure of it.
func (h *holding) watch(ctx context.Context, lock *redlock.Lock, valid, till clock.Instant) clock.Instant {
	last := h.From
	for {
		at := now()
		left := lock.Remaining()
		if left <= 0 {
			if strings.Contains(fmt.Sprint(lock.Err()), "validity has ended") {
				return valid
			}
			return last // it was lost before, and this process was told
		}
		last = at
		if at >= till || ctx.Err() != nil {
			return at
		}
		if longer := at.Add(left); longer.Sub(valid) > 50*time.Millisecond {
			valid = longer
			h.until(valid)
		}
		pause(ctx, min(till.Sub(at), 20*time.Millisecond))
	}
}
