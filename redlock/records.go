package redlock

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	"github.com/redquorum/redquorum/internal/door"
	"github.com/redquorum/redquorum/internal/journal"
	"github.com/redquorum/redquorum/internal/ledger"
	"github.com/redquorum/redquorum/internal/look"
	"github.com/redquorum/redquorum/internal/owner"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock/internal/members/record"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
	"github.com/redquorum/redquorum/redlock/internal/round"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// What the other packages of this module need of a Locker, and programs do not.
func init() {
	door.Of = func(locker any) door.Door {
		l := locker.(*Locker)
		return door.Door{
			Clock: l.clock, Closing: l.life.closing, KeyPrefix: l.config.keyPrefix, Timeout: l.config.timeout(l.config.lock.ttl), Nodes: l.nodes,
			WriteTerm: l.writeTerm, ReadTerms: l.readTerms, WriteLog: l.writeLog, ReadLog: l.readLog, Note: l.note, Force: l.forceUnlock, Inspect: l.inspect, InspectPermits: l.inspectPermits,
			Init: l.initialize, Members: l.clusterMembers, Add: l.addMember, Remove: l.removeMember, SetMaxTTL: l.setMaxTTL,
			Leases: door.Leases{Life: l.config.lifeOf, Detach: l.detach, Extend: l.extendValue, Release: l.releaseValue},
		}
	}
	door.Office = lockOption(func(c *lockConfig) error {
		c.office = true
		return nil
	})
	door.OnlyLooks = lockerOption(func(c *config) error {
		c.looks, c.quarantine = true, QuarantineStrict
		return nil
	})
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
	if v, ended := l.verdict(ctx, r); v != quorum.Won {
		return roundError(r, "log", "", ErrNoQuorum, nil).endedBy(ended)
	}
	return nil
}

// logLoss adds an entry of a lock that was lost. It waits for nothing; a node that is away gets
// none.
func (l *Locker) logLoss(lock *Lock, reason error) {
	skipped, ok := l.losses.take(l.clock.Now())
	if !ok {
		return
	}
	holder, _, _ := owner.Of(lock.value)
	e := journal.Entry{ID: journal.RunID(lock.value), Kind: journal.Lost, Key: lock.keys()[0], Holder: owner.Shown(holder), Why: lock.whyLost(reason)}
	if skipped > 0 {
		e.Why += fmt.Sprintf(" (and before it, %d others of this process)", skipped)
	}
	r := l.newLogRound(e, true)
	r.Send(l.clock.Now().Add(lock.timeout), 0)
}

func (l *Locker) writeLog(ctx context.Context, e journal.Entry) error {
	if !l.life.enter() {
		return ErrClosed
	}
	defer l.life.leave()
	return l.log(ctx, e)
}

// readLog reads the log, or what there is about one name.
func (l *Locker) readLog(ctx context.Context, name string) ([]journal.Entry, error) {
	request, key := wire.Logged(), ""
	if name != "" {
		if _, err := l.config.lockConfig(ctx, name, nil); err != nil {
			return nil, err
		}
		key = l.config.keyPrefix + name
		request = wire.LoggedOf(key)
	}
	if !l.life.enter() {
		return nil, ErrClosed
	}
	defer l.life.leave()
	replies, _, err := l.askEach(ctx, request, name, l.config.timeout(l.config.lock.ttl))
	texts := make([][]string, len(replies))
	for i, reply := range replies {
		texts[i] = wire.ReadTexts(reply)
	}
	log := journal.Merge(texts)
	if name != "" {
		log = journal.About(key, log)
	}
	return log, err
}

// note adds an entry to the history of a name, in the background.
func (l *Locker) note(name string, e journal.Entry) { l.history.note(l.config.keyPrefix+name, e) }

func forcedEntry(key, holder, why string) journal.Entry {
	return journal.Entry{Kind: journal.Forced, Key: key, Holder: holder, Why: why}
}

// changeEntry tells how a version of the cluster's list differs from the one before.
func changeEntry(before, after *record.Roster) journal.Entry {
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
	v, ended := l.verdict(ctx, r)
	if v == quorum.Won {
		return nil
	}
	return roundError(r, "record", name, ErrNoQuorum, nil).endedBy(ended)
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
	view := l.members.View()
	page := ledger.Page{Answers: make([]ledger.Answer, len(replies)), Quorum: view.Need(), Members: view.Size()}
	for i, reply := range replies {
		if answer, ok := wire.ReadRecorded(reply); ok && r.GrantCounts(i) {
			answer.Counts = true
			page.Answers[i] = answer
		}
	}
	return page, nil
}

// forceUnlock deletes a lock on every node, or hands it to the longest waiter, and returns once a
// quorum has done so or held nothing. If values are given, it takes away none but these: the
// masters compare, so a holder that got the lock meanwhile keeps it ([journal.ErrChanged]).
func (l *Locker) forceUnlock(ctx context.Context, name, why string, values []string) (f journal.Taken, err error) {
	cfg, err := l.config.lockConfig(ctx, name, nil)
	if err != nil {
		return f, err
	}
	if !l.life.enter() {
		return f, ErrClosed
	}
	defer l.life.leave()
	if ctx.Err() != nil {
		return f, fmt.Errorf("redlock: force-unlock %q: %w", name, round.EndOf(ctx))
	}
	key, timeout := l.config.keyPrefix+name, l.config.timeout(cfg.ttl)
	var mu sync.Mutex // guards seen and held; late replies still use them
	seen, held := f, map[string]int{}
	take := func(_ int, reply any) {
		mu.Lock()
		defer mu.Unlock()
		value, left := wire.ReadForced(reply)
		seen.Left = max(seen.Left, left)
		if value == "" {
			return // that one held nothing, which says nothing of what the others held
		}
		if held[value]++; held[value] > held[seen.Value] {
			seen.Value = value
		}
	}
	r := l.rounds.New(&round.Spec{
		Request: wire.Force(key, l.config.grace(timeout), values...), Meaning: wire.Forced, Rule: quorum.DecideHeld, Replies: take,
	})
	l.awaitVoters(ctx, l.clock.Now(), timeout, 0)
	r.Send(l.clock.Now().Add(timeout), 0)
	v, ended := l.verdict(ctx, r)
	if v == quorum.Denied {
		return f, fmt.Errorf("redlock: force-unlock %q: %w", name, journal.ErrChanged)
	}
	if v != quorum.Won {
		return f, roundError(r, "force-unlock", name, ErrNoQuorum, nil).endedBy(ended)
	}
	mu.Lock()
	told := seen
	mu.Unlock()
	if told.Value != "" {
		holder, _, _ := owner.Of(told.Value)
		told.Unlogged = l.log(ctx, forcedEntry(key, owner.Shown(holder), why))
	}
	return told, nil
}

// inspect asks every node who holds a lock. It changes nothing. It returns what the nodes have
// answered by the node timeout or the end of ctx, and if fewer than a quorum did, an error with it.
func (l *Locker) inspect(ctx context.Context, name string) (look.Answers[look.Inspection], error) {
	return inspectWith(ctx, l, name, wire.Inspect, wire.ReadInspect)
}

// inspectPermits asks every node who holds the permits of a semaphore, like inspect.
func (l *Locker) inspectPermits(ctx context.Context, name string) (look.Answers[look.Permits], error) {
	return inspectWith(ctx, l, name, wire.InspectPermits, wire.ReadPermits)
}

func inspectWith[T any](
	ctx context.Context, l *Locker, name string, question func(key string) pipeline.Request, read func(reply any) (T, bool),
) (told look.Answers[T], err error) {
	cfg, err := l.config.lockConfig(ctx, name, nil)
	if err != nil {
		return told, err
	}
	if !l.life.enter() {
		return told, ErrClosed
	}
	defer l.life.leave()
	replies, r, err := l.askEach(ctx, question(l.config.keyPrefix+name), name, l.config.timeout(cfg.ttl))
	nodes := r.Nodes()
	told = look.Answers[T]{Nodes: make([]look.Answer[T], len(nodes)), Quorum: l.members.View().Need()}
	for i, node := range nodes {
		n := &told.Nodes[i]
		n.Endpoint = node.Endpoint()
		switch n.Told, n.Answered = read(replies[i]); {
		case !n.Answered:
			n.Err = l.members.Explain(i, cmp.Or(r.Err(i), pool.ErrTimeout))
		case !r.GrantCounts(i):
			n.Err = l.members.Explain(i, r.Err(i))
		}
	}
	return told, err
}
