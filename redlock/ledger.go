package redlock

import (
	"context"
	"fmt"

	"github.com/redquorum/redquorum/internal/ledger"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
	"github.com/redquorum/redquorum/redlock/internal/round"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// Ledger is for the other packages of this module: the terms of elections at the nodes.
func (l *Locker) Ledger(ledger.Key) ledger.Ledger {
	return ledger.Ledger{Clock: l.clock, Write: l.writeTerm, Read: l.readTerms}
}

// writeTerm records a term. A record lives as long as the counter that gave the token.
func (l *Locker) writeTerm(ctx context.Context, name string, term ledger.Entry) error {
	if !l.life.enter() {
		return ErrClosed
	}
	defer l.life.leave()
	if ctx.Err() != nil {
		return fmt.Errorf("redlock: record %q: %w", name, round.EndOf(ctx))
	}
	request := wire.Record(l.config.keyPrefix+name, term.Term, term.Value, l.config.fenceLife())
	r := l.rounds.New(&round.Spec{Request: request, Meaning: wire.Yes, Rule: quorum.DecideHeld})
	r.Send(l.clock.Now().Add(l.config.timeout(l.config.lock.ttl)), 0)
	v, ended := r.Wait(ctx)
	if v == quorum.Won {
		return nil
	}
	return l.failure(r, "record", name, ErrNoQuorum, ended)
}

// readTerms asks every node, like Inspect.
func (l *Locker) readTerms(ctx context.Context, name string, since int64, most int) (ledger.Page, error) {
	cfg, err := l.config.lockConfig(ctx, name, nil)
	if err != nil {
		return ledger.Page{}, err
	}
	if !l.life.enter() {
		return ledger.Page{}, ErrClosed
	}
	defer l.life.leave()
	replies, r, err := l.askEach(ctx, wire.Recorded(l.config.keyPrefix+name, since, most), name, l.config.timeout(cfg.ttl))
	if err != nil {
		return ledger.Page{}, err
	}
	page := ledger.Page{Answers: make([]ledger.Answer, len(replies)), Quorum: l.members.View().Need()}
	for i, reply := range replies {
		if answer, ok := wire.ReadRecorded(reply); ok && r.GrantCounts(i) {
			answer.Counts = true
			page.Answers[i] = answer
		}
	}
	return page, nil
}
