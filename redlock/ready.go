package redlock

import (
	"context"
	"errors"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/pipeline"
)

// Ready returns nil once a quorum of nodes answers. It goes on asking until ctx ends; the error
// then tells what is wrong with each node ([ErrNoQuorum]).
func (l *Locker) Ready(ctx context.Context) error {
	if ctx == nil {
		return invalid("ctx is nil")
	}
	pause := clock.Backoff{Shortest: outageMin, Longest: outageMax}
	for {
		if !l.enter() {
			return ErrClosed
		}
		err := l.ping(ctx)
		l.leave()
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
	r := l.newPing()
	timeout := l.config.timeout(l.config.lock.ttl)
	deadline := l.clock.Now().Add(timeout)
	l.settle(ctx, timeout)
	r.send(l, deadline, 0)
	v, ended := r.wait(ctx)
	if v == won {
		return nil
	}
	return r.failure(l, "ready", "", ErrNoQuorum, ended)
}

// newPing returns a round that asks for a sign of life.
func (l *Locker) newPing() *round {
	return &round{
		request: pipeline.Request{Name: "PING", Accept: func(reply any) bool { return reply == "PONG" }, Prove: l.voters.proves()},
		read:    func(any) vote { return granted },
		rule:    decideHeld, decided: make(chan struct{}),
	}
}
