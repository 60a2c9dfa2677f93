package redsync

import (
	"context"
	"errors"
	"slices"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/redlock"
)

// explain returns the error of a Locker or lock as redsync's.
func (m *Mutex) explain(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, redlock.ErrInvalid), errors.Is(err, redlock.ErrClosed):
		return err
	case errors.Is(err, redlock.ErrNoValidity):
		return ErrFailed
	}
	failed, complete := m.failures(err)
	ended := ctx.Err() != nil && errors.Is(err, ctx.Err())
	var others []int
	for i := range failed {
		switch {
		case failed[i] != nil:
		case ended:
			failed[i] = ctx.Err()
		default:
			others = append(others, i)
		}
	}
	if errors.Is(err, redlock.ErrTaken) && !ended {
		return &ErrTaken{Nodes: others}
	}
	var all []error
	if errors.Is(err, redlock.ErrNoQuorum) {
		all = append(all, redlock.ErrNoQuorum)
	}
	for i, failure := range failed {
		if failure != nil {
			all = append(all, &RedisError{Node: i, Err: failure})
		} else if complete {
			all = append(all, &ErrNodeTaken{Node: i})
		}
	}
	if all == nil {
		return err
	}
	return errors.Join(all...)
}

// failures returns the error of each node, nil for those that did not fail. Complete means that
// these refused.
func (m *Mutex) failures(err error) (failed []error, complete bool) {
	nodes := m.locker.Stats().Nodes
	failed = make([]error, len(nodes))
	var votes *redlock.QuorumError
	if !errors.As(err, &votes) {
		return failed, false
	}
	for _, failure := range votes.Nodes {
		if i := slices.IndexFunc(nodes, func(node redlock.NodeStats) bool { return node.Endpoint == failure.Endpoint }); i >= 0 {
			failed[i] = failure // the text names the master, too
		}
	}
	return failed, votes.Refused+len(votes.Nodes) == len(nodes)
}

// look asks all masters for the lock, and reports whether a quorum has it under the value. The
// error is what the others said. A master without the lock counts like one that has somebody
// else's, or for Unlock as ErrLockAlreadyExpired.
func (m *Mutex) look(ctx context.Context, value string, unlock bool) (ours bool, err error) {
	status, err := admin.Of(m.locker).Inspect(ctx, m.name)
	if len(status.Nodes) == 0 {
		return false, err
	}
	value = valueIn(status, value)
	var all []error
	var taken []int
	count := 0
	for i, node := range status.Nodes {
		switch {
		case node.Err != nil && ctx.Err() != nil:
			all = append(all, &RedisError{Node: i, Err: errors.Join(ctx.Err(), &redlock.NodeError{Endpoint: node.Endpoint, Err: node.Err})})
		case node.Err != nil:
			all = append(all, &RedisError{Node: i, Err: &redlock.NodeError{Endpoint: node.Endpoint, Err: node.Err}})
		case node.Value == value && value != "":
			count++
		case unlock && node.Value == "" && node.TTL == 0:
			all = append(all, ErrLockAlreadyExpired)
		default:
			taken = append(taken, i)
			all = append(all, &ErrNodeTaken{Node: i})
		}
	}
	if len(taken) >= status.Quorum {
		return false, &ErrTaken{Nodes: taken}
	}
	return count >= status.Quorum, errors.Join(all...)
}

// valueIn returns the value that a quorum holds if the text is what the program made for it, and
// otherwise the text, which is a value then. Values of other libraries have no time, and neither
// has that of readers.
func valueIn(status admin.Status, text string) string {
	if status.Owner == text && !status.Since.Time.IsZero() {
		return status.Value
	}
	return text
}
