package redlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/go-multierror"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
	"github.com/redquorum/redquorum/redlock/internal/round"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// Ready returns nil once a quorum of nodes answers. It keeps asking until ctx ends; the error then
// says what is wrong with each node ([ErrNoQuorum]).
func (l *Locker) Ready(ctx context.Context) error {
	if ctx == nil {
		return invalid("ctx is nil")
	}
	pause := clock.Backoff{Shortest: outageMin, Longest: outageMax}
	for {
		if !l.life.enter() {
			return ErrClosed
		}
		err := l.ping(ctx)
		l.life.leave()
		if err == nil {
			return nil
		}
		if !l.sleep(ctx, pause.Next()) {
			var failure *QuorumError
			errors.As(err, &failure)
			return waitEnded(failure, l.whyEnded(ctx))
		}
	}
}

// ping asks every node for a sign of life.
func (l *Locker) ping(ctx context.Context) error {
	r := l.rounds.New(&round.Spec{Request: wire.Ping(), Meaning: wire.Any, Rule: quorum.DecideHeld})
	timeout := l.config.timeout(l.config.lock.ttl)
	deadline := l.clock.Now().Add(timeout)
	l.awaitVoters(ctx, l.clock.Now(), timeout)
	r.Send(deadline, 0)
	v, ended := r.Wait(ctx)
	if v == quorum.Won {
		return nil
	}
	failure := l.failure(r, "ready", "", ErrNoQuorum, ended)
	failure.voting, failure.nodes = l.members.View().Voting.Len(), l.members.View().Seats()
	return failure
}

// initPatience bounds how long Init waits.
const initPatience = time.Second

// Init is for an operator who knows that no lock is held that a master may have forgotten. If no
// master votes yet, those that no client knew before vote at once instead of [WithMaxTTL] later.
// With force, all masters in quarantine do; and if no quorum of their cluster is left, those of the
// list that are there become a new one. If a lock is held after all, it may end up with two
// holders. Init changes nothing on masters that already vote.
//
// It returns nil once all nodes vote. Otherwise the error is a [*QuorumError] with [ErrNoQuorum]
// that says why each other node does not vote; the nodes that can vote do. Further errors:
// [ErrInvalid], [ErrClosed], the error of a ctx that ended.
func (l *Locker) Init(ctx context.Context, force bool) error {
	if ctx == nil {
		return invalid("ctx is nil")
	}
	if !l.life.enter() {
		return ErrClosed
	}
	defer l.life.leave()
	l.awaitVoters(ctx, l.clock.Now(), initPatience)
	l.askAll(ctx) // finds out which nodes have forgotten since
	until := l.clock.Now().Add(initPatience)
	all := force || l.members.View().Voting.Empty()
	for {
		undecided, changed := l.members.Initialize(all, force)
		if !undecided || !l.await(ctx, changed, until) {
			break
		}
	}
	if force {
		l.members.FormAnyway()
	}
	failure := &QuorumError{Op: "init", Need: len(l.nodes()), reason: ErrNoQuorum}
	for i, node := range l.nodes() {
		var err error
		switch stats := node.Stats(); {
		case l.members.View().Voting.Has(i):
			failure.Granted++
			continue
		case stats.State == pool.Down:
			err = stats.Err
		default:
			if err = l.members.Why(i); err == nil {
				err = fmt.Errorf("not connected yet: %w", pool.ErrTimeout)
			}
		}
		failure.Nodes = multierror.Append(failure.Nodes, &NodeError{Endpoint: node.Endpoint(), Err: err})
	}
	if failure.Granted == len(l.nodes()) {
		return nil
	}
	if ctx.Err() != nil {
		failure.ended = round.EndOf(ctx)
	}
	return failure
}

// askAll asks all nodes for a sign of life, with proof of memory, and waits until all have answered
// or failed.
func (l *Locker) askAll(ctx context.Context) {
	r := l.rounds.New(&round.Spec{Request: wire.Ping(), Meaning: wire.Any, Rule: awaitAll})
	r.Send(l.clock.Now().Add(l.config.timeout(l.config.lock.ttl)), 0)
	r.Wait(ctx) //nolint:errcheck // Init reports what is wrong
}
