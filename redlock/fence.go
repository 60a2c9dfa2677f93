package redlock

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redquorum/redquorum/internal/pipeline"
)

// A counter lives for many locks' time after the last one that it fenced. One that is forgotten does no harm: the clock has by
// then moved on by more than two clients' clocks can be apart (S16 in docs/safety.md).
const (
	fenceLifeTTLs = 10
	fenceLifeMin  = 10 * time.Minute
)

func (c *config) fenceLife() time.Duration { return max(fenceLifeTTLs*c.maxTTL, fenceLifeMin) }

// Fence returns the fencing token of the lock, or 0 without [WithFencing]. Of two locks of one
// name, the one that was acquired later has the larger token, whatever the clocks of clients did,
// and that of one master of three or more while the others are up. The protected resource remembers
// the largest token that it has seen and refuses smaller ones: so it is safe from a holder that was
// paused beyond its validity and does not know it yet.
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

// settle finds the fencing token of a round that a quorum granted. In the ordinary case all nodes
// gave the caller's clock, and it is settled. Otherwise the nodes that are behind are raised to it,
// with a second round. It returns why there is no token, and the context's error where ctx ended
// it.
//
// Where the fences of the quorum are too far apart, one of its nodes has a wrong clock or counter,
// and its fence is no use: then the grants that are still to come are awaited, until the node
// timeout.
func (lock *Lock) settle(ctx context.Context, r *round) (reason, ended error) {
	if !lock.fenced {
		return nil, nil
	}
	var more chan struct{}
	var ahead uint64 // where the first raise went to
	for raises := 0; ; {
		fences, granted, all := r.fences(lock.locker, more)
		token, at, below := nextToken(fences, granted, ahead, raises, all)
		if below != 0 {
			raises++
			reason, ended = lock.raise(ctx, token, at, below)
			if errors.Is(reason, ErrNoQuorum) { // what was granted stays granted: another number may do
				reason = nil
				for i, fence := range fences {
					if raises == 1 && fence >= token {
						ahead |= 1 << i
					}
				}
				continue
			}
		}
		switch {
		case reason != nil || ended != nil:
			return reason, ended
		case token != 0:
			lock.fence = token
			lock.mend(fences, granted)
			return nil, nil
		case all:
			return errFarApart, nil
		case more == nil:
			more = make(chan struct{}, 1)
			continue // with what came before it was there
		}
		select {
		case <-more: // at the node timeout at the latest, when every vote is in
		case <-ctx.Done():
			return nil, endOf(ctx)
		}
	}
}

// fences returns the fences of the nodes that granted, and whether all have voted. If not, more is
// told of the next vote, where it is not nil.
func (r *round) fences(l *Locker, more chan struct{}) (fences []int64, granted uint64, all bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rare.more = more
	return append(fences, r.rare.fences...), l.voters.counted(r.granted), r.granted|r.refused|r.failed == allNodes(len(l.nodes))
}

func (r *round) tellMoreLocked() {
	if r.rare == nil || r.rare.more == nil {
		return
	}
	select {
	case r.rare.more <- struct{}{}:
	default: // it will see this vote, too
	}
}

// raise brings nodes below a token to it: the second round. S22 (docs/safety.md) wants it soon
// after the first.
func (lock *Lock) raise(ctx context.Context, token int64, at, below uint64) (reason, ended error) {
	l := lock.locker
	if l.clock.Now().Sub(lock.acquired) > raiseWithin {
		return ErrNoValidity, nil
	}
	l.counts.secondRounds.Add(1)
	r := &round{
		request: pipeline.Request{
			Script: raiseScript, Key: lock.key(), Accept: isInteger, Prove: l.voters.proves(),
			Args: raiseScript.Args(nil, lock.keys, lock.valueArg, strconv.FormatInt(token, 10), l.config.fenceLife().Milliseconds()),
		},
		read: readRaise, rule: decideAcquire, decided: make(chan struct{}),
		granted: at, failed: allNodes(len(l.nodes)) &^ (at | below),
	}
	r.send(l, l.clock.Now().Add(lock.timeout), 0) // a round of its own
	v, ended := r.wait(ctx)
	switch v {
	case denied:
		return ErrTaken, nil
	case noQuorum:
		return errFarApart, nil
	case won:
	case pending: // ctx ended
	}
	return nil, ended
}

// errFarApart is why there is no token where a quorum granted and cannot agree on one.
var errFarApart = fmt.Errorf("%w: no quorum is near one fencing token", ErrNoQuorum)

// readRaise reads the answer of raise.lua. A node that does not follow has not refused: the lock is
// the caller's there.
func readRaise(reply any) vote {
	if reply == int64(-1) {
		return failed
	}
	return readOne(reply)
}

// mend brings the counters of nodes back that are far ahead of the token, in the background. It is
// behind the grant on each connection, and before the release.
func (lock *Lock) mend(fences []int64, granted uint64) {
	l := lock.locker
	to := lock.fence + mendAhead
	for i, fence := range fences {
		if granted>>i&1 == 0 || fence-lock.fence <= mendBeyond {
			continue
		}
		args := mendScript.Args(nil, lock.keys, lock.valueArg, strconv.FormatInt(fence, 10), strconv.FormatInt(to, 10), l.config.fenceLife().Milliseconds())
		l.enterAnyway()
		r := &round{
			request: pipeline.Request{Script: mendScript, Args: args, Key: lock.key(), Accept: isInteger},
			read:    func(any) vote { return refused }, // says nothing about those who wait there
			rule:    decideHeld, locker: l, failed: allNodes(len(l.nodes)) &^ (1 << i),
		}
		r.send(l, l.clock.Now().Add(lock.timeout), 0)
	}
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
