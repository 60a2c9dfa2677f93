package redlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redquorum/redquorum/internal/look"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock/internal/members"
	"github.com/redquorum/redquorum/redlock/internal/members/record"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
	"github.com/redquorum/redquorum/redlock/internal/round"
	"github.com/redquorum/redquorum/redlock/internal/wait"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// Why a node has no vote.
var (
	// ErrNotMember means that a master is no member of the cluster by which votes count.
	ErrNotMember = members.ErrNotMember

	// ErrOtherCluster means that a master is a member of another cluster.
	ErrOtherCluster = members.ErrOtherCluster
)

// clusterMembers asks the masters for the list of members, and returns it as a majority of them
// tells it.
func (l *Locker) clusterMembers(ctx context.Context) (look.Cluster, error) {
	const op = "list"
	ctx, leave, err := l.enterChange(ctx, op)
	if err != nil {
		return look.Cluster{}, err
	}
	defer leave()
	m, err := l.standing(ctx)
	return m, l.endOf(ctx, op, err)
}

func (l *Locker) standing(ctx context.Context) (look.Cluster, error) {
	s, err := l.members.Reconciler().Standing(ctx)
	switch {
	case ctx.Err() != nil:
		return look.Cluster{}, ctx.Err()
	case err != nil:
		return look.Cluster{}, l.failure(err)
	}
	m := look.Cluster{ID: s.Roster.Cluster, Version: s.Roster.Version.Number, MaxTTL: s.Roster.MaxTTL, Next: s.Next}
	for _, p := range s.Roster.Members {
		one := look.Member{ID: p.ID, Endpoint: p.Endpoint, ServerName: p.ServerName, Version: s.Told[p.ID]}
		one.Err = fmt.Errorf("%w: no connection to it yet", pool.ErrTimeout)
		if at, ok := l.members.NodeOf(one.ID, one.Endpoint); ok {
			stats := l.nodes()[at].Stats() // it may be new
			one.Listed = l.members.Listed(at)
			one.Up, one.Voting = stats.State == pool.Up, l.members.View().Voting.Has(at)
			if one.Err = l.members.Why(at); !one.Up && stats.Err != nil {
				one.Err = stats.Err
			}
		}
		m.Members = append(m.Members, one)
	}
	return m, nil
}

// enterChange begins a call, and waits until it is known by which list votes count. Its context
// also ends with the Locker.
func (l *Locker) enterChange(ctx context.Context, op string) (_ context.Context, leave func(), err error) {
	switch {
	case ctx == nil:
		return nil, nil, invalid("ctx is nil")
	case ctx.Err() != nil:
		return nil, nil, l.endOf(ctx, op, round.EndOf(ctx))
	case !l.life.enter():
		return nil, nil, ErrClosed
	}
	ctx, cancel := l.untilClosed(ctx)
	l.awaitVoters(ctx, l.clock.Now(), 2*initPatience, 0)
	return ctx, func() { cancel(); l.life.leave() }, nil
}

// endOf says what ended a call, if it was its context or the Locker.
func (l *Locker) endOf(ctx context.Context, op string, err error) error {
	switch {
	case err == nil || ctx.Err() == nil:
		return err
	case errors.Is(context.Cause(ctx), ErrClosed):
		return ErrClosed
	default:
		return fmt.Errorf("redlock: members %s: %w", op, err)
	}
}

// failure describes why there is no list, with what is wrong with each node.
func (l *Locker) failure(err error) error {
	var told *members.NoRosterError
	if !errors.As(err, &told) {
		return invalid("%w", err)
	}
	view := l.members.View()
	nodes := l.nodes()
	errs := make([]error, len(nodes))
	for i, node := range nodes {
		if errs[i] = l.members.Why(i); node.Stats().State == pool.Down {
			errs[i] = node.Stats().Err
		}
	}
	failure := newQuorumError("members", "", nodes, view.None(), errs, ErrNoQuorum, nil)
	if failure.Granted = told.Told; told.Need > 0 {
		failure.Need = told.Need // the view may be another one by now
	}
	return failure
}

// addMember makes a master a member. It returns when that votes, and all members know of it.
func (l *Locker) addMember(ctx context.Context, endpoint string, progress look.Progress) error {
	const op = "add"
	ctx, leave, err := l.enterChange(ctx, op)
	if err != nil {
		return err
	}
	defer leave()
	node, err := pipeline.Named(l.members.List(), endpoint)
	if err != nil {
		return invalid("%w", err)
	}
	address := node.Endpoint()
	if first := l.nodes()[0]; node.Database() != first.Database() {
		_ = node.Close() //nolint:errcheck // always nil
		return invalid("%s is in another database than %s", address, first.Endpoint())
	}
	at := l.members.NodeAt(node)
	switch {
	case at < 0 && l.life.isClosed():
		return ErrClosed
	case at < 0:
		return invalid("this Locker has %d nodes, and can have no more", quorum.MaxNodes)
	}
	defer l.members.Leave(at)
	return l.change(ctx, op, progress, func(s *members.Standing) (*record.Roster, error) {
		if s.Roster.Has(address) { // also if it forgot that it is a member: it will come back as the one that it was
			return nil, nil
		}
		id, err := l.members.Reconciler().Prepare(ctx, s, at, progress)
		if err != nil {
			return nil, fmt.Errorf("redlock: add %s: %w", address, err)
		}
		if s.Roster.Index(id) >= 0 {
			return nil, nil
		}
		return s.Roster.With(id, node.Listed()), nil
	})
}

// removeMember removes a member by its ID, and returns when all others know of it.
func (l *Locker) removeMember(ctx context.Context, id string, progress look.Progress) error {
	const op = "remove"
	ctx, leave, err := l.enterChange(ctx, op)
	if err != nil {
		return err
	}
	defer leave()
	was := false
	return l.change(ctx, op, progress, func(s *members.Standing) (*record.Roster, error) {
		switch {
		case s.Roster.Index(id) >= 0 && len(s.Roster.Members) == 1:
			return nil, invalid("%s is the only member", id)
		case s.Roster.Index(id) >= 0:
			was = true
			return s.Roster.Without(id), nil
		case !was:
			return nil, fmt.Errorf("%w: %s", ErrNotMember, id)
		default:
			return nil, nil
		}
	})
}

// setMaxTTL sets the longest TTL of the cluster's locks.
func (l *Locker) setMaxTTL(ctx context.Context, d time.Duration, progress look.Progress) error {
	if d = d.Truncate(time.Millisecond); d < minTTL || d > 24*time.Hour {
		return invalid("maximum TTL %v is not between %v and 24h", d, minTTL)
	}
	const op = "max-ttl"
	ctx, leave, err := l.enterChange(ctx, op)
	if err != nil {
		return err
	}
	defer leave()
	return l.change(ctx, op, progress, func(s *members.Standing) (*record.Roster, error) {
		if s.Roster.MaxTTL == d {
			return nil, nil
		}
		return s.Roster.WithMaxTTL(d), nil
	})
}

// change makes a change, and says what it waited for if ctx or the Locker ends.
func (l *Locker) change(ctx context.Context, op string, progress look.Progress, next func(*members.Standing) (*record.Roster, error)) error {
	chosen := func(before, after *record.Roster) {
		// Who may not write the log changes members all the same.
		_ = l.log(ctx, changeEntry(before, after)) //nolint:errcheck // see above
	}
	err := l.members.Reconciler().Change(ctx, members.Operation{Next: next, Chosen: chosen, Tell: progress})
	if conflict := l.members.View().Conflict; conflict != nil && errors.Is(err, conflict) {
		return invalid("%w", err)
	}
	return l.endOf(ctx, op, err)
}

// untilClosed returns a context that also ends when the Locker is closed.
func (l *Locker) untilClosed(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		select {
		case <-l.life.closing:
			cancel(ErrClosed)
		case <-done:
		}
	}()
	return ctx, func() { close(done); cancel(nil) }
}

// Ready returns nil once a quorum of nodes answers. It keeps asking until ctx ends; the error then
// says what is wrong with each node ([ErrNoQuorum]).
func (l *Locker) Ready(ctx context.Context) error {
	if ctx == nil {
		return invalid("ctx is nil")
	}
	pause := wait.Outage()
	for {
		if !l.life.enter() {
			return ErrClosed
		}
		err := l.ping(ctx)
		l.life.leave()
		if err == nil {
			return nil
		}
		if !l.waiters.Sleep(ctx, pause.Next()) {
			return err.endedBy(l.waiters.WhyEnded(ctx))
		}
	}
}

// ping asks every node for a sign of life.
func (l *Locker) ping(ctx context.Context) *QuorumError {
	r := l.rounds.New(&round.Spec{Request: wire.Ping(), Meaning: wire.Any, Rule: quorum.DecideHeld})
	timeout := l.config.timeout(l.config.lock.ttl)
	deadline := l.clock.Now().Add(timeout)
	l.awaitVoters(ctx, l.clock.Now(), timeout, 0)
	r.Send(deadline, 0)
	v, ended := l.verdict(ctx, r)
	if v == quorum.Won {
		return nil
	}
	failure := roundError(r, "ready", "", ErrNoQuorum, ended)
	failure.voting, failure.nodes = l.members.View().Voting.Len(), l.members.View().Size()
	return failure
}

// initPatience bounds how long initialize waits.
const initPatience = time.Second

// initialize makes masters in quarantine vote. An operator knows that they have forgotten no lock
// that is held.
func (l *Locker) initialize(ctx context.Context, force bool) error {
	if ctx == nil {
		return invalid("ctx is nil")
	}
	if ctx.Err() != nil { // before it makes anybody vote
		return fmt.Errorf("redlock: init: %w", round.EndOf(ctx))
	}
	if !l.life.enter() {
		return ErrClosed
	}
	defer l.life.leave()
	ctx, cancel := l.untilClosed(ctx)
	defer cancel()
	l.awaitVoters(ctx, l.clock.Now(), initPatience, 0)
	l.askAll(ctx) // finds out which nodes have forgotten since
	until := l.clock.Now().Add(initPatience)
	all := force || l.members.View().Voting.Empty()
	for ctx.Err() == nil {
		undecided, changed := l.members.Initialize(all, force)
		if !undecided || !l.await(ctx, changed, until) {
			break
		}
	}
	if force {
		l.members.Reconciler().FormAnyway(ctx)
	}
	failure, view := &QuorumError{Op: "init", reason: ErrNoQuorum}, l.members.View()
	for i, node := range l.nodes() {
		if view.Free.Has(i) {
			continue
		}
		failure.Need++
		var err error
		switch stats := node.Stats(); {
		case view.Voting.Has(i):
			failure.Granted++
			continue
		case stats.State == pool.Down:
			err = stats.Err
		default:
			if err = l.members.Why(i); err == nil {
				err = fmt.Errorf("not connected yet: %w", pool.ErrTimeout)
			}
		}
		failure.Nodes = append(failure.Nodes, &NodeError{Endpoint: node.Endpoint(), Err: err})
	}
	if l.life.isClosed() {
		return ErrClosed
	}
	if failure.Granted == failure.Need {
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
	r.Wait(ctx) //nolint:errcheck // initialize reports what is wrong
}
