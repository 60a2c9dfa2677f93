package redlock

import (
	"context"
	"errors"
	"fmt"
	"time"

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

// Cluster is the cluster of a [Locker]: the masters of which a majority makes a quorum. The masters
// keep the list of its members themselves, so all clients count by the same one, and it can be
// changed while locks are held. The changes are chosen by the members with promise and accept; a
// master takes part in the next one only when every lock has ended that was counted before the
// last. docs/operations.md says how to replace a master, and docs/safety.md what holds.
type Cluster struct {
	locker   *Locker
	progress members.Progress
}

// Cluster returns the cluster of the Locker.
func (l *Locker) Cluster() *Cluster {
	return &Cluster{locker: l, progress: func(string, time.Duration) {}}
}

// Progress returns the cluster with a function that is told, about once a second, what a change
// waits for and how long that takes at least.
func (c *Cluster) Progress(f func(waits string, left time.Duration)) *Cluster {
	if f == nil {
		return c.locker.Cluster()
	}
	return &Cluster{locker: c.locker, progress: f}
}

// Members asks the masters for the list, and returns it as a majority of its members tells it.
// Otherwise the error is a [*QuorumError] with [ErrNoQuorum], [ErrInvalid] if masters of two
// clusters are listed, [ErrClosed], or the error of a ctx that ended, with which Members returns
// at once.
func (c *Cluster) Members(ctx context.Context) (Membership, error) {
	const op = "list"
	ctx, leave, err := c.enter(ctx, op)
	if err != nil {
		return Membership{}, err
	}
	defer leave()
	m, err := c.standing(ctx)
	return m, c.endOf(ctx, op, err)
}

func (c *Cluster) standing(ctx context.Context) (Membership, error) {
	l := c.locker
	s, err := l.members.Standing(ctx)
	switch {
	case ctx.Err() != nil:
		return Membership{}, ctx.Err()
	case err != nil:
		return Membership{}, c.failure(err)
	}
	m := membershipOf(s.Roster)
	m.Next = s.Next
	for i := range m.Members {
		one := &m.Members[i]
		one.Version = s.Told[one.ID]
		one.Err = fmt.Errorf("%w: no connection to it yet", pool.ErrTimeout)
		if at, ok := l.members.NodeOf(one.ID, one.Endpoint); ok {
			stats := l.nodes()[at].Stats() // it may be new
			one.Listed = l.members.Listed(at)
			one.Up, one.Voting = stats.State == pool.Up, l.members.View().Voting.Has(at)
			if one.Err = l.members.Why(at); !one.Up && stats.Err != nil {
				one.Err = stats.Err
			}
		}
	}
	return m, nil
}

// enter begins a call, and waits until it is known by which list votes count. The call's context
// also ends with the Locker.
func (c *Cluster) enter(ctx context.Context, op string) (_ context.Context, leave func(), err error) {
	l := c.locker
	switch {
	case ctx == nil:
		return nil, nil, invalid("ctx is nil")
	case ctx.Err() != nil:
		return nil, nil, c.endOf(ctx, op, round.EndOf(ctx))
	case !l.life.enter():
		return nil, nil, ErrClosed
	}
	ctx, cancel := l.untilClosed(ctx)
	l.awaitVoters(ctx, l.clock.Now(), 2*initPatience, 0)
	return ctx, func() { cancel(); l.life.leave() }, nil
}

// endOf says what ended a call, if it was its context or the Locker.
func (c *Cluster) endOf(ctx context.Context, op string, err error) error {
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
func (c *Cluster) failure(err error) error {
	l := c.locker
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

// Add makes a master a member. It returns when the new master votes, and all members know of it, or
// when ctx ends; then it may still become a member, and Add goes on where it stopped. The master
// must be new, or have been removed from this cluster, otherwise the error is [ErrOtherCluster]. To
// add a member does nothing.
func (c *Cluster) Add(ctx context.Context, endpoint string) error {
	const op = "add"
	ctx, leave, err := c.enter(ctx, op)
	if err != nil {
		return err
	}
	defer leave()
	l := c.locker
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
	return c.change(ctx, op, func(s *members.Standing) (*record.Roster, error) {
		if s.Roster.Has(address) { // also if it forgot that it is a member: it will come back as the one that it was
			return nil, nil
		}
		id, err := l.members.Prepare(ctx, s, at, c.progress)
		if err != nil {
			return nil, fmt.Errorf("redlock: add %s: %w", address, err)
		}
		if s.Roster.Index(id) >= 0 {
			return nil, nil
		}
		return s.Roster.With(id, node.Listed()), nil
	})
}

// Remove removes a member by its ID, whether it is up or not. It returns when all other members
// know of it, or when ctx ends; then it may still be removed. To remove what is no member is
// [ErrNotMember]. The last member cannot be removed, and of two both must be up.
func (c *Cluster) Remove(ctx context.Context, id string) error {
	const op = "remove"
	ctx, leave, err := c.enter(ctx, op)
	if err != nil {
		return err
	}
	defer leave()
	was := false
	return c.change(ctx, op, func(s *members.Standing) (*record.Roster, error) {
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

// SetMaxTTL sets the longest TTL of the cluster's locks, from 10 ms to 24 h. A shorter one is in
// force at once, but a master that forgets waits for the longer of the last two; a longer one is
// when all members know it. It returns like [Cluster.Add].
func (c *Cluster) SetMaxTTL(ctx context.Context, d time.Duration) error {
	if d = d.Truncate(time.Millisecond); d < minTTL || d > 24*time.Hour {
		return invalid("maximum TTL %v is not between %v and 24h", d, minTTL)
	}
	const op = "max-ttl"
	ctx, leave, err := c.enter(ctx, op)
	if err != nil {
		return err
	}
	defer leave()
	return c.change(ctx, op, func(s *members.Standing) (*record.Roster, error) {
		if s.Roster.MaxTTL == d {
			return nil, nil
		}
		return s.Roster.WithMaxTTL(d), nil
	})
}

// change makes a change, and says what it waited for if ctx or the Locker ends.
func (c *Cluster) change(ctx context.Context, op string, next func(*members.Standing) (*record.Roster, error)) error {
	chosen := func(before, after *record.Roster) {
		// Who may not write the log changes members all the same.
		_ = c.locker.log(ctx, changeEntry(before, after)) //nolint:errcheck // see above
	}
	err := c.locker.members.Change(ctx, members.Operation{Next: next, Chosen: chosen, Tell: c.progress})
	if conflict := c.locker.members.Conflict(); conflict != nil && errors.Is(err, conflict) {
		return invalid("%w", err)
	}
	return c.endOf(ctx, op, err)
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

func membershipOf(r *record.Roster) Membership {
	m := Membership{Cluster: r.Cluster, Version: r.Version.Number, MaxTTL: r.MaxTTL}
	for _, p := range r.Members {
		m.Members = append(m.Members, Member{ID: p.ID, Endpoint: p.Endpoint, ServerName: p.ServerName})
	}
	return m
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
		if !l.desk.Sleep(ctx, pause.Next()) {
			return err.endedBy(l.desk.WhyEnded(ctx))
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
		l.members.FormAnyway(ctx)
	}
	failure, view := &QuorumError{Op: "init", reason: ErrNoQuorum}, l.members.View()
	for i, node := range l.nodes() {
		if view.Vacant.Has(i) {
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
	r.Wait(ctx) //nolint:errcheck // Init reports what is wrong
}
