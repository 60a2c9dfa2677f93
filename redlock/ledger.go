package redlock

import (
	"context"
	"fmt"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/ledger"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
	"github.com/redquorum/redquorum/redlock/internal/round"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

func init() {
	ledger.Of = func(locker any) ledger.Ledger { return (*lockerLedger)(locker.(*Locker)) }
}

// lockerLedger is a Locker as the ledger of package election.
type lockerLedger Locker

// Clock returns the clock of the Locker.
func (o *lockerLedger) Clock() clock.Clock { return o.clock }

// Write records the term of a lock. A record lives as long as the counter that gave the token.
func (o *lockerLedger) Write(ctx context.Context, of any) error {
	l, lock := (*Locker)(o), of.(*Lock)
	if !l.life.enter() {
		return ErrClosed
	}
	defer l.life.leave()
	if ctx.Err() != nil {
		return fmt.Errorf("redlock: record %q: %w", lock.Name(), round.EndOf(ctx))
	}
	request := wire.Record(lock.keys()[0], lock.fence, lock.value, l.config.fenceLife())
	r := l.rounds.New(request, wire.Yes, quorum.DecideHeld)
	r.Send(l.clock.Now().Add(lock.timeout), 0)
	v, ended := r.Wait(ctx)
	if v == quorum.Won {
		return nil
	}
	return l.failure(r, "record", lock.Name(), ErrNoQuorum, ended)
}

// Read asks every node, like Inspect.
func (o *lockerLedger) Read(ctx context.Context, name string, since int64, most int) (ledger.Page, error) {
	l := (*Locker)(o)
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
