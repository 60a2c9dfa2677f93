package redlock

import (
	"context"
	"fmt"

	"github.com/hashicorp/go-multierror"

	"github.com/redquorum/redquorum/pool"
)

// Init is the word of a person that no lock is held which a master may have forgotten. Where no
// master votes yet, those that nobody knew before vote at once, instead of [WithMaxTTL] later. With
// force so do all that are in quarantine. If a lock is held after all, two may hold it. It changes
// nothing on masters that vote already.
//
// It returns nil once all nodes vote. Otherwise the error is a [*QuorumError] with [ErrNoQuorum]
// that says of each node that does not vote why; those that can vote do. Further errors:
// [ErrInvalid], [ErrClosed], the error of a ctx that ended.
func (l *Locker) Init(ctx context.Context, force bool) error {
	if ctx == nil {
		return invalid("ctx is nil")
	}
	if !l.enter() {
		return ErrClosed
	}
	defer l.leave()
	e := l.voters
	l.settle(ctx, askTimeout)
	l.askAll(ctx) // who has forgotten since is found out
	until := l.clock.Now().Add(askTimeout)
	all := force || e.counted(allNodes(len(l.nodes))) == 0
	for {
		undecided, changed := e.initialize(all, force)
		if !undecided || !l.await(ctx, changed, until) {
			break
		}
	}
	failure := &QuorumError{Op: "init", Need: len(l.nodes), reason: ErrNoQuorum}
	for i, node := range l.nodes {
		var err error
		switch stats := node.Stats(); {
		case e.counted(1<<i) != 0:
			failure.Granted++
			continue
		case stats.State == pool.Down:
			err = stats.Err
		default:
			if err = e.why(i); err == nil {
				err = fmt.Errorf("not connected yet: %w", pool.ErrTimeout)
			}
		}
		failure.Nodes = multierror.Append(failure.Nodes, &NodeError{Endpoint: node.Endpoint(), Err: err})
	}
	if failure.Granted == len(l.nodes) {
		return nil
	}
	if ctx.Err() != nil {
		failure.ended = endOf(ctx)
	}
	return failure
}

// askAll asks all nodes for a sign of life, with proof, and waits until all have answered or
// failed.
func (l *Locker) askAll(ctx context.Context) {
	r := l.newPing()
	r.rule = func(votes tally) verdict {
		if votes.outstanding() > 0 {
			return pending
		}
		return won
	}
	r.send(l, l.clock.Now().Add(l.config.timeout(l.config.lock.ttl)), 0)
	r.wait(ctx) //nolint:errcheck // Init tells what is wrong
}

// initialize makes new nodes active, and lost ones, as far as nothing else is being asked of them.
// It reports whether it is open how a node will come out, and returns a channel that is closed when
// something has changed.
func (e *electorate) initialize(fresh, lost bool) (undecided bool, changed <-chan struct{}) {
	e.mu.Lock()
	for i := range e.standings {
		n := &e.standings[i]
		mine := n.phase == phaseQuarantined && n.twin < 0 && n.server.is(n.marker) && n.err == nil &&
			e.nodes[i].State() != pool.Down && n.pardoned != n.marker.incarnation &&
			(fresh && n.marker.state == markerNew || lost && n.marker.state == markerLost)
		if mine && (n.asking == nil || n.asking.census != nil) {
			e.census, n.pardoned = nil, n.marker.incarnation
			e.sendLocked(i, &swap{begin: wordActive, rest: n.marker.rest()}, nil)
		}
		undecided = undecided || n.phase == phaseQuarantined && n.asking != nil || e.undecidedLocked(i)
	}
	if e.waiting == nil {
		e.waiting = make(chan struct{})
	}
	changed = e.waiting
	outbox := e.outbox
	e.outbox = nil
	e.mu.Unlock()
	e.send(outbox)
	return undecided, changed
}
