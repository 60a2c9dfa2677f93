package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// disturb makes the server suffer one fault, chosen at random.
func (h *harness) disturb(random *rand.Rand) {
	upTo := func(ms int) time.Duration { return time.Duration(random.IntN(ms)) * time.Millisecond }
	switch random.IntN(7) {
	case 0:
		h.server.Stop()
		time.Sleep(upTo(800))
		h.server.Continue()
	case 1:
		h.server.Kill()
		time.Sleep(upTo(300))
		h.server.Restart(true)
	case 2:
		h.server.CutAfterWrite(1 + random.IntN(5))
	case 3:
		h.server.CutReply(random.IntN(8))
	case 4:
		h.server.Inject([]byte("+OK\r\n"))
	case 5:
		h.server.Delay(func() time.Duration { return 30 * time.Millisecond }, func() time.Duration { return 90 * time.Millisecond })
		time.Sleep(200 * time.Millisecond)
		h.server.Delay(nil, nil)
	case 6:
		h.server.Mute(true)
		time.Sleep(upTo(800))
		h.server.Mute(false)
	}
}

// loggedPuts is puts, and writes down that it has been executed.
var loggedPuts = NewScript(`
	if redis.call('SET', KEYS[1], ARGV[1], 'NX') then redis.call('SET', 'log:' .. ARGV[1], '1') return 1 end
	return 0`).
	Batch(NewScript(`
	local votes = {}
	for i, key in ipairs(KEYS) do
		votes[i] = 0
		if redis.call('SET', key, ARGV[i], 'NX') then redis.call('SET', 'log:' .. ARGV[i], '1') votes[i] = 1 end
	end
	return votes`), 1, 8)

// narrow is a connection that often takes a part of what is written at once, or nothing.
type narrow struct {
	net.Conn
	random *rand.Rand
}

func (c narrow) TryWrite(p []byte) (int, error) {
	if p = p[:min(c.random.IntN(2*len(p)+1), len(p))]; len(p) == 0 {
		return 0, nil
	}
	return c.Write(p)
}

// caller is one of many that share a node.
type caller struct {
	*harness
	name   int
	random *rand.Rand
	told   []*waiter
}

// work makes calls until stop is closed.
func (c *caller) work(stop <-chan struct{}) {
	for n := 0; ; n++ {
		select {
		case <-stop:
			for _, w := range c.told {
				w.wait() // fails if the call has ended a second time
			}
			return
		case <-time.After(time.Duration(c.random.IntN(3000)) * time.Microsecond):
			for i := range 1 + c.random.IntN(12) { // it reads for itself from the second on
				c.ask(fmt.Sprintf("%d/%d/%d", c.name, n, i))
			}
			c.setAndRelease(n)
		}
	}
}

// ask asks for a text that nobody else asks for.
func (c *caller) ask(text string) {
	direct := c.random.IntN(2) == 0
	w := c.do(false, Request{Words: Command("ECHO", text), Accept: isText, Direct: direct, Collects: direct})
	if direct && c.random.IntN(8) > 0 { // otherwise it does not come as promised
		limited, cancel := context.WithTimeout(ctx, time.Duration(1+c.random.IntN(3000))*time.Microsecond)
		c.node.Collect(limited, w)
		cancel()
	}
	if r := c.ended(w); r.err == nil {
		assert.Equal(c.t, []byte(text), r.reply)
	}
}

// ended returns how a call ended, which must be by its deadline.
func (c *caller) ended(w *waiter) result {
	r := w.wait()
	assert.LessOrEqual(c.t, r.after, testDeadline+minTick, "%v", r.err)
	c.told = append(c.told, w)
	return r
}

// setAndRelease sets some keys and releases them, at once, soon, or once it knows how that ended.
// What is said not to have been executed must not have been.
func (c *caller) setAndRelease(n int) {
	each := func(keep bool, script *Script, k int) *waiter {
		key, value := fmt.Sprintf("k%d.%d", c.name, k), fmt.Sprintf("%d/%d/%d", c.name, n, k)
		return c.do(keep, Request{Script: script, Key: key, Words: On([]string{key}, value), Accept: isNumber, Direct: c.random.IntN(2) == 0})
	}
	var sets, releases []*waiter
	keys, wait := 1+c.random.IntN(6), c.random.IntN(3)
	for k := range keys {
		sets = append(sets, each(false, loggedPuts, k))
		if wait == 0 {
			releases = append(releases, each(true, deletes, k))
		}
	}
	if c.random.IntN(20) == 0 {
		c.do(false, Request{Words: Command("SCRIPT", "FLUSH")})
	}
	switch wait {
	case 1:
		time.Sleep(time.Duration(c.random.IntN(3000)) * time.Microsecond)
	case 2:
		for _, w := range sets {
			w.wait()
		}
	}
	for k := len(releases); k < keys; k++ {
		releases = append(releases, each(true, deletes, k))
	}
	for _, w := range slices.Concat(sets, releases) {
		c.ended(w)
	}
	time.Sleep(2 * testDeadline)
	for k, w := range sets {
		_, _, executed := c.server.Get(fmt.Sprintf("log:%d/%d/%d", c.name, n, k))
		r := w.wait()
		var call *CallError
		switch {
		case errors.As(r.err, &call) && call.Fate != Unknown:
			assert.False(c.t, executed, "%v, but it was executed", r.err)
		case r.err == nil && r.reply == int64(1):
			assert.True(c.t, executed, "it was not executed")
		}
	}
}

// Many callers share a server that is stopped, cut, killed and restarted all the time. Every call
// ends once and in time. No answer is another's: a surplus status that comes while a text is due is
// recognized by its kind. A kept release comes behind its SET, so no key is left. Half of the calls
// may be written by their callers, if only in part, and some are read by them.
func TestRandomFaultsLoseNoCallMixNoAnswersAndLeaveNoKey(t *testing.T) {
	withRandomFaults(t, 12, func(h *harness) {
		alone := func(keys string) bool { return keys == "1" }
		assert.NotEmpty(t, slices.DeleteFunc(h.runs(), alone), "there were batches")
	})
}

// Of a few callers, each often has the connection for itself.
func TestRandomFaultsLoseNoCallOfThoseWhoReadForThemselves(t *testing.T) {
	for _, callers := range []int{1, 2} {
		withRandomFaults(t, callers, func(*harness) {})
	}
}

func withRandomFaults(t *testing.T, callers int, test func(h *harness)) {
	for seed := range uint64(12) {
		inBubble(t, func(h *harness) {
			random := rand.New(rand.NewPCG(seed, 1))
			require.NoError(t, h.node.Close())
			h.node = h.newNode("fake:6379", WithStallTimeout(300*time.Millisecond), WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := h.dial(ctx, network, address)
				return narrow{conn, rand.New(rand.NewPCG(seed, uint64(h.dials.Load())))}, err
			}))
			var all sync.WaitGroup
			stop := make(chan struct{})
			for i := range callers {
				c := &caller{harness: h, name: i, random: rand.New(rand.NewPCG(seed, uint64(i+2)))}
				all.Go(func() { c.work(stop) })
			}
			for range 60 {
				h.disturb(random)
				time.Sleep(time.Duration(random.IntN(100)) * time.Millisecond)
			}
			close(stop)
			all.Wait()
			time.Sleep(5 * time.Second)
			h.server.CutAfterWrite(0)
			h.command("PING").wait() // it takes the one cut reply that may be left
			h.up()
			time.Sleep(5 * time.Second)
			assert.Zero(t, h.node.Stats().Waiting)
			assert.Zero(t, h.node.Stats().Kept)
			isLog := func(key string) bool { return strings.HasPrefix(key, "log:") }
			assert.Empty(t, slices.DeleteFunc(h.server.Keys(), isLog))
			test(h)
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
