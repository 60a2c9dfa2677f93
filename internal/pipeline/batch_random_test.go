package pipeline

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

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

// Whatever happens to batches: every call ends once and in time, a kept release comes behind its
// SET, and what is said not to have been executed was not.
func TestRandomFaultsLeaveNoKeyBehindABatch(t *testing.T) {
	for seed := range uint64(12) {
		inBubble(t, func(h *harness) {
			random := rand.New(rand.NewPCG(seed, 1))
			var callers sync.WaitGroup
			stop := make(chan struct{})
			for i := range 12 {
				random := rand.New(rand.NewPCG(seed, uint64(i+2)))
				callers.Go(func() {
					for n := 0; ; n++ {
						select {
						case <-stop:
							return
						case <-time.After(time.Duration(random.IntN(3000)) * time.Microsecond):
						}
						var puts, dels []*waiter
						var values []string
						keys := 1 + random.IntN(6)
						wait := random.IntN(3)
						for k := range keys {
							key, value := fmt.Sprintf("k%d.%d", i, k), fmt.Sprintf("%d/%d/%d", i, n, k)
							values = append(values, value)
							puts = append(puts, h.do(false, Request{Script: loggedPuts, Key: key, Words: On([]string{key}, value), Accept: isNumber}))
							if wait == 0 {
								dels = append(dels, h.do(true, Request{Script: deletes, Key: key, Words: On([]string{key}, value), Accept: isNumber}))
							}
						}
						if random.IntN(20) == 0 {
							h.do(false, Request{Words: Command("SCRIPT", "FLUSH")})
						}
						if wait == 1 {
							time.Sleep(time.Duration(random.IntN(3000)) * time.Microsecond)
						}
						if wait == 2 {
							for _, w := range puts {
								w.wait()
							}
						}
						if wait > 0 {
							for k := range keys {
								key, value := fmt.Sprintf("k%d.%d", i, k), fmt.Sprintf("%d/%d/%d", i, n, k)
								dels = append(dels, h.do(true, Request{Script: deletes, Key: key, Words: On([]string{key}, value), Accept: isNumber}))
							}
						}
						for k, w := range puts {
							r := w.wait()
							assert.LessOrEqual(t, r.after, testDeadline+minTick, "%v", r.err)
							var call *CallError
							if errors.As(r.err, &call) && call.Fate != Unknown {
								values[k] = "!" + values[k]
							} else if r.err == nil && r.reply == int64(1) {
								values[k] = "+" + values[k]
							}
						}
						for _, w := range dels {
							r := w.wait()
							assert.LessOrEqual(t, r.after, testDeadline+minTick, "%v", r.err)
						}
						logged := map[string]bool{}
						time.Sleep(2 * testDeadline)
						for _, key := range h.server.Keys() {
							logged[key] = true
						}
						for _, v := range values {
							switch v[0] {
							case '!':
								assert.False(t, logged["log:"+v[1:]], "%s was executed", v)
							case '+':
								assert.True(t, logged["log:"+v[1:]], "%s was not executed", v)
							}
						}
					}
				})
			}
			for range 60 {
				h.disturb(random)
				time.Sleep(time.Duration(random.IntN(100)) * time.Millisecond)
			}
			close(stop)
			callers.Wait()
			time.Sleep(5 * time.Second)
			h.server.CutAfterWrite(0)
			h.command("PING").wait()
			h.up()
			time.Sleep(5 * time.Second)
			var left []string
			for _, key := range h.server.Keys() {
				if !strings.HasPrefix(key, "log:") {
					left = append(left, key)
				}
			}
			assert.Empty(t, left)
			assert.Zero(t, h.node.Stats().Kept)
			assert.Zero(t, h.node.Stats().Waiting)
			batches := 0
			for _, k := range h.runs() {
				if k != "1" {
					batches++
				}
			}
			if seed == 0 {
				t.Log("batches", batches, "of", len(h.runs()))
			}
		}, WithStallTimeout(300*time.Millisecond))
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
