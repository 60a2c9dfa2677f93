package redlock

import (
	"context"
	"strconv"
	"time"

	"github.com/redquorum/redquorum/pool"
)

// A counter lives for many locks' time after the last one that it fenced. One that is forgotten does no harm: the clock has by
// then moved on by more than two clients' clocks can be apart (S16 in docs/safety.md).
const (
	fenceLifeTTLs = 10
	fenceLifeMin  = 10 * time.Minute
)

func (c *config) fenceLife() time.Duration { return max(fenceLifeTTLs*c.maxTTL, fenceLifeMin) }

// Fence returns the fencing token of the lock, or 0 without [WithFencing]. Of two locks of one name, the one that was acquired later
// has the larger token, whatever the clocks did. The protected resource remembers the largest token that it has seen
// and refuses smaller ones: so it is safe from a holder that was paused beyond its validity and does not know it yet.
//
// A token is about the time in microseconds since 1970 and below 2^53: an exact number also where numbers are doubles. That of a set is
// larger than all earlier tokens of each of its names.
func (lock *Lock) Fence() int64 { return lock.fence }

// fenceArgs returns the arguments that make a script raise the fences; none without fencing. All nodes are given one time, also where one
// is asked before the others: otherwise their fences would differ, and take a second round.
func (lock *Lock) fenceArgs() []any {
	if !lock.fenced {
		return nil
	}
	c := &lock.locker.config
	return []any{lock.fence, c.fenceLife().Milliseconds()}
}

// settle finds the fencing token of a round that a quorum granted. In the ordinary case all nodes gave the caller's clock, and
// it is settled. Otherwise the nodes that are behind are raised to the largest, with a second round. It returns why there is
// no token, and the context's error where ctx ended it.
func (lock *Lock) settle(ctx context.Context, r *round) (reason, ended error) {
	if !lock.fenced {
		return nil, nil
	}
	l := lock.locker
	r.mu.Lock()
	// Later grants are not looked at: their fences do not matter to a token that a quorum has.
	granted := l.voters.counted(r.granted)
	fences := append([]int64(nil), r.rare.fences...)
	r.mu.Unlock()
	token, at, below := decideToken(fences, granted)
	if below != 0 {
		l.counts.secondRounds.Add(1)
		raise := &round{
			request: pool.Request{
				Script: raiseScript, Key: lock.key(), Accept: isInteger, Prove: l.voters.proves(),
				Args: raiseScript.Args(nil, lock.keys, lock.valueArg, strconv.FormatInt(token, 10), l.config.fenceLife().Milliseconds()),
			},
			read: readOne, rule: decideAcquire, decided: make(chan struct{}),
			granted: at, failed: allNodes(len(fences)) &^ (at | below),
		}
		raise.send(l, l.clock.Now().Add(lock.timeout), 0) // a round of its own
		v, ended := raise.wait(ctx)
		switch v {
		case won:
		case denied:
			return ErrTaken, nil
		case noQuorum:
			return ErrNoQuorum, nil
		case pending:
			return nil, ended
		}
	}
	lock.fence = token
	return nil, nil
}

// isGrant reports whether a reply is one that acquire.lua and adopt.lua can give.
func isGrant(reply any) bool {
	switch reply := reply.(type) {
	case int64:
		return reply == 0 || reply == 1
	case []byte:
		return isFence(reply)
	default:
		return false
	}
}

// isFence reports whether a text is a number that fence.lua can give.
func isFence(text []byte) bool {
	n, err := strconv.ParseInt(string(text), 10, 64)
	return err == nil && n > 0 && n < 1<<53
}

// readGrant reads what the acquire scripts return: 0, or 1 or a fence; wait.lua as the first of an array.
func readGrant(reply any) vote {
	if answers, ok := reply.([]any); ok {
		reply = answers[0]
	}
	if reply == nil || reply == int64(0) {
		return refused
	}
	return granted
}

// fenceOf returns the fence in a reply that grants.
func fenceOf(reply any) int64 {
	if answers, ok := reply.([]any); ok {
		reply = answers[1]
	}
	text, _ := reply.([]byte)
	n, _ := strconv.ParseInt(string(text), 10, 64) //nolint:errcheck // isFence has parsed it
	return n
}
