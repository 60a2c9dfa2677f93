package redlock

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/journal"
	"github.com/redquorum/redquorum/internal/ledger"
	"github.com/redquorum/redquorum/internal/owner"
	"github.com/redquorum/redquorum/redlock/internal/members"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
	"github.com/redquorum/redquorum/redlock/internal/round"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// Journal is for the other packages of this module: the log at the nodes.
func (l *Locker) Journal(journal.Key) journal.Journal {
	return journal.Journal{Write: l.writeLog, Read: l.readLog, Force: l.forceUnlock}
}

func (l *Locker) writeLog(ctx context.Context, e journal.Entry) error {
	if !l.life.enter() {
		return ErrClosed
	}
	defer l.life.leave()
	return l.log(ctx, e)
}

func (l *Locker) readLog(ctx context.Context) ([]journal.Entry, error) {
	if !l.life.enter() {
		return nil, ErrClosed
	}
	defer l.life.leave()
	replies, _, err := l.askEach(ctx, wire.Logged(), "", l.config.timeout(l.config.lock.ttl))
	texts := make([][]string, len(replies))
	for i, reply := range replies {
		texts[i] = wire.ReadTexts(reply)
	}
	return journal.Merge(texts), err
}

func forcedEntry(key, holder, why string) journal.Entry {
	return journal.Entry{Kind: journal.Forced, Key: key, Holder: holder, Why: why}
}

// changeEntry tells how a version of the cluster's list differs from the one before.
func changeEntry(before, after *members.Roster) journal.Entry {
	e := journal.Entry{ID: after.Version.Name, Kind: journal.MaxTTL, Why: fmt.Sprintf("from %v to %v", before.MaxTTL, after.MaxTTL)}
	for _, p := range after.Members {
		if before.Index(p.ID) < 0 {
			e.Kind, e.Why = journal.Added, fmt.Sprintf("member %s, %s", p.ID, p.Endpoint)
		}
	}
	for _, p := range before.Members {
		if after.Index(p.ID) < 0 {
			e.Kind, e.Why = journal.Removed, fmt.Sprintf("member %s, %s", p.ID, p.Endpoint)
		}
	}
	e.Why += fmt.Sprintf("; version %d, %d members", after.Version.Number, len(after.Members))
	return e
}

func (l *Locker) newLogRound(e journal.Entry, background bool) *round.Round {
	e.Stamp(l.clock.Wall())
	e.By = owner.Process()
	return l.rounds.New(&round.Spec{Request: wire.Log(&e), Meaning: wire.Yes, Rule: quorum.DecideHeld, Background: background})
}

// log adds an entry, and waits until a quorum has it.
func (l *Locker) log(ctx context.Context, e journal.Entry) error {
	r := l.newLogRound(e, false)
	r.Send(l.clock.Now().Add(l.config.timeout(l.config.lock.ttl)), 0)
	if v, ended := r.Wait(ctx); v != quorum.Won {
		return l.failure(r, "log", "", ErrNoQuorum, ended)
	}
	return nil
}

// Losses come all at once, when the nodes have other things to do. So a Locker tells of the first
// few of them, and the next entry says how many it left out.
const (
	lossesAtOnce = 8
	lossesPer    = time.Minute
)

// losses counts the entries of lost locks.
type losses struct {
	mu      sync.Mutex // guards the fields below; never held over a call to a node
	from    clock.Instant
	entries int // since then
	skipped int // since the last entry
}

// take reports whether there may be an entry now, and how many there were none of since the last.
func (s *losses) take(now clock.Instant) (skipped int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.entries == 0 || now.Sub(s.from) >= lossesPer {
		s.from, s.entries = now, 0
	}
	if s.entries == lossesAtOnce {
		s.skipped++
		return 0, false
	}
	skipped = s.skipped
	s.entries, s.skipped = s.entries+1, 0
	return skipped, true
}

// logLoss adds an entry of a lock that was lost. It waits for nothing; a node that is away gets
// none.
func (l *Locker) logLoss(lock *Lock, reason error) {
	skipped, ok := l.losses.take(l.clock.Now())
	if !ok {
		return
	}
	holder, _ := ownerAndSince(lock.value)
	e := journal.Entry{Kind: journal.Lost, Key: lock.keys()[0], Holder: holder, Why: strings.TrimPrefix(reason.Error(), ErrLost.Error()+": ")}
	if skipped > 0 {
		e.Why += fmt.Sprintf(" (and before it, %d others of this process)", skipped)
	}
	l.life.enterAnyway()
	r := l.newLogRound(e, true)
	r.Send(l.clock.Now().Add(lock.timeout), 0)
}

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
