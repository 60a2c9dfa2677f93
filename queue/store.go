package queue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/pool"
)

// A call that the store did not answer is repeated after a pause, which grows from the first to the
// second.
const (
	againMin = 2 * time.Millisecond
	againMax = 50 * time.Millisecond
)

// store is the Redis that has the queue.
type store struct {
	node    *pipeline.Node
	timeout time.Duration
	key     string
	keys    []string // of every script; see change.lua
}

// waiter is a pipeline.Sink for one call.
type waiter chan answer

type answer struct {
	reply any
	err   error
}

// Complete takes the answer. There is room for it.
func (w waiter) Complete(_ int, reply any, err error) { w <- answer{reply, err} }

// run runs a script until it is answered or refused, the timeout has passed, or ctx has ended. In
// the last two cases the error says whether the script may have been executed. If the connection
// breaks, the script is sent again: every script changes something only once (change.lua). run also
// returns whether an unanswered attempt may have been executed.
func (s *store) run(ctx context.Context, script *pipeline.Script, accept func(reply any) bool, args ...any) (reply any, inDoubt bool, err error) {
	return s.call(ctx, pipeline.Request{Script: script, Words: pipeline.On(s.keys, args...), Key: s.key, Accept: accept})
}

func (s *store) call(ctx context.Context, request pipeline.Request) (reply any, inDoubt bool, err error) {
	clk := s.node.Clock()
	request.Deadline = clk.Now().Add(s.timeout)
	pause := clock.Backoff{Shortest: againMin, Longest: againMax}
	for {
		reply, failure := s.attempt(ctx, request)
		if failure == nil {
			return reply, inDoubt, nil
		}
		again := failure.Fate != pipeline.Refused && !errors.Is(failure, pool.ErrClosed)
		inDoubt = inDoubt || failure.Fate == pipeline.Unknown
		if again && clk.Now().Before(request.Deadline) && clock.Sleep(ctx, clk, pause.Next()) {
			continue
		}
		if inDoubt {
			failure = &pipeline.CallError{Fate: pipeline.Unknown, Err: failure.Err}
		}
		return nil, inDoubt, fmt.Errorf("queue: store %s: %w", s.node.Endpoint(), failure)
	}
}

// attempt makes a call once. It has its own copy of the request, because an abandoned attempt may
// still be under way.
func (s *store) attempt(ctx context.Context, request pipeline.Request) (any, *pipeline.CallError) {
	if ctx.Err() != nil {
		return nil, &pipeline.CallError{Fate: pipeline.Unsent, Err: endOf(ctx)}
	}
	answered := make(waiter, 1)
	request.Sink = answered
	s.node.Do(pipeline.Call{Request: &request})
	select {
	case a := <-answered:
		var failure *pipeline.CallError
		errors.As(a.err, &failure)
		return a.reply, failure
	case <-ctx.Done():
		return nil, &pipeline.CallError{Fate: pipeline.Unknown, Err: endOf(ctx)}
	}
}

// endOf returns the error of a context that ended, with its cause if it has one of its own.
func endOf(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, ctx.Err()) {
		return fmt.Errorf("%w: %w", ctx.Err(), cause)
	}
	return ctx.Err()
}

// change runs a script that changes the queue, and returns its answer.
func (s *store) change(ctx context.Context, script *pipeline.Script, fence int64, args ...any) (string, error) {
	reply, inDoubt, err := s.run(ctx, script, isTextOrNothing, append([]any{strconv.FormatInt(fence, 10)}, args...)...)
	if err != nil {
		return "", err
	}
	text, ok := reply.([]byte)
	if !ok {
		return "", s.stale(fence, inDoubt)
	}
	return string(text), nil
}

// stale returns the error of a call whose fence was refused. If an earlier attempt had no answer,
// that attempt may have come before the change with the newer fence.
func (s *store) stale(fence int64, inDoubt bool) error {
	if inDoubt {
		return fmt.Errorf("queue: store %s: fence %d: %w", s.node.Endpoint(), fence, &pipeline.CallError{Fate: pipeline.Unknown, Err: ErrStale})
	}
	return fmt.Errorf("%w: store %s, fence %d", ErrStale, s.node.Endpoint(), fence)
}

func isTextOrNothing(reply any) bool {
	_, isText := reply.([]byte)
	return isText || reply == nil
}
