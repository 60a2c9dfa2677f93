package round

import (
	"cmp"
	"errors"
	"sync"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/redlock/internal/members"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// Batch is a round that gives many locks a new time to live: one script per node, with the votes
// counted per lock.
type Batch struct {
	members  *members.Membership
	nodes    int // how many there were when the batch was made
	observer BatchObserver
	request  pipeline.Request

	// mu guards the fields below. It is never held over a call to a node or to the observer.
	mu      sync.Mutex
	items   []item
	view    *members.View // by which the votes were counted last; nil before they were
	sending bool          // verdicts are held back
	errs    []error       // a node's error, by its index; nil while none failed
}

// BatchObserver is told the verdict on each lock, once, and then of each node that answers later
// that it lacks the lock, or has it back. No mutex of the batch is held then.
type BatchObserver interface {
	Decided(item int, verdict quorum.Verdict, said Said)
	Late(item int, said Said)
}

// Said is what nodes have said of a lock beyond their votes.
type Said struct {
	Absent quorum.NodeSet // nodes that lack a key of the lock
	Taken  quorum.NodeSet // nodes where somebody else has one
	Back   quorum.NodeSet // nodes that have the lock again, whose vote did not count yet
}

func (s *Said) add(node int, absent, taken, back bool) {
	if absent {
		s.Absent.Add(node)
	}
	if taken {
		s.Taken.Add(node)
	}
	if back {
		s.Back.Add(node)
	}
}

// item is one lock of a batch.
type item struct {
	keys    int // how many it has
	votes   quorum.Ballot
	lacked  quorum.NodeSet // see [quorum.Denials.Lacks]
	said    Said
	verdict quorum.Verdict // final once it is not pending
	told    bool           // the observer has been told
	decided *standing      // with a verdict that it was not won
}

// NewBatch returns a batch with room for this many locks.
func NewBatch(ms *members.Membership, locks int, observer BatchObserver) *Batch {
	return &Batch{members: ms, nodes: len(ms.Nodes()), observer: observer, items: make([]item, 0, locks), sending: true}
}

// Add adds a lock with this many keys. Nodes that lacked one may have been given it since. Such a
// node refuses once more: somebody else may have held the lock in between, and the votes of the
// nodes that noticed it must not be outweighed by this one.
func (b *Batch) Add(keys int, lacked quorum.NodeSet) {
	b.items = append(b.items, item{keys: keys, lacked: lacked})
}

// Send asks all nodes. The observer is told nothing until Deliver is called, so until then the
// caller may hold mutexes that the observer needs.
func (b *Batch) Send(request pipeline.Request, deadline clock.Instant) {
	b.request = request
	b.request.Deadline, b.request.Sink, b.request.Prove = deadline, b, request.Prove && b.members.Proves()
	view := b.members.View()
	for i, node := range b.members.Nodes()[:b.nodes] {
		if err := unasked(view, i, 0); err != nil {
			b.Complete(i, nil, err)
			continue
		}
		node.Do(pipeline.Call{Request: &b.request, Index: int16(i)})
	}
}

// Deliver tells the observer the verdicts so far, and lets the others follow.
func (b *Batch) Deliver() {
	b.mu.Lock()
	b.sending = false
	decided := b.decideLocked(false)
	b.mu.Unlock()
	b.tell(decided)
}

// Recount is [Round.Recount] for each lock of the batch.
func (b *Batch) Recount() {
	b.mu.Lock()
	decided := b.decideLocked(true)
	b.mu.Unlock()
	b.tell(decided)
}

// Proven counts a node's votes, if the node proved that it remembers. If it did not, what it lacks
// is of use all the same: it is healed before it votes again. It implements pipeline.Prover.
func (b *Batch) Proven(node int, reply any, proof *pipeline.Proof) {
	if !b.members.Proven(node, proof) {
		b.Complete(node, reply, members.ErrUnproven)
		return
	}
	b.Complete(node, reply, nil)
}

// Complete counts a node's votes. It implements pipeline.Sink.
func (b *Batch) Complete(node int, reply any, err error) {
	answer := wire.ReadExtended(reply)
	var late []int
	b.mu.Lock()
	if err != nil {
		b.failLocked(node, err)
	}
	for i := range b.items {
		it := &b.items[i]
		v, absent, taken, failed := answer.Next(it.keys)
		back := v == quorum.Granted && it.lacked.Has(node)
		if back {
			v = quorum.Refused
		}
		if err != nil {
			v = quorum.Failed
		} else if failed != nil {
			b.failLocked(node, failed)
		}
		it.votes.Add(node, v)
		it.said.add(node, absent, taken, back)
		if it.told && (absent || taken || back) {
			late = append(late, i)
		}
	}
	decided := b.decideLocked(false)
	b.mu.Unlock()
	b.tell(decided)
	for _, i := range late {
		b.tellLate(i, quorum.Only(node))
	}
}

func (b *Batch) tellLate(i int, node quorum.NodeSet) {
	b.mu.Lock()
	said := b.items[i].said
	b.mu.Unlock()
	b.observer.Late(i, Said{said.Absent.And(node), said.Taken.And(node), said.Back.And(node)})
}

func (b *Batch) failLocked(node int, err error) {
	if b.errs == nil {
		b.errs = make([]error, b.nodes)
	}
	b.errs[node] = err
}

// decision is the outcome for one lock of a batch: a copy, which the observer is told once mu is
// free.
type decision struct {
	item    int
	verdict quorum.Verdict
	said    Said
}

// decideLocked returns the locks whose verdict has become final. Each is returned once, to whoever
// calls this under mu first, and that goroutine tells the observer. Between two votes, only a win
// is final (onlyWon), as in [Round.recountLocked].
func (b *Batch) decideLocked(onlyWon bool) (decided []decision) {
	if b.sending {
		return nil
	}
	view, asked := b.members.View(), quorum.All(b.nodes)
	b.view = view
	for i := range b.items {
		it := &b.items[i]
		if it.told {
			continue
		}
		votes := view.Count(&it.votes, asked)
		if it.verdict = quorum.DecideHeld(votes); onlyWon && it.verdict != quorum.Won {
			it.verdict = quorum.Pending
		}
		if it.verdict != quorum.Pending {
			it.told = true
			if it.verdict != quorum.Won {
				it.decided = &standing{it.votes, view}
			}
			if decided == nil {
				decided = make([]decision, 0, len(b.items)-i)
			}
			decided = append(decided, decision{i, it.verdict, it.said})
		}
	}
	return decided
}

func (b *Batch) tell(decided []decision) {
	for _, d := range decided {
		b.observer.Decided(d.item, d.verdict, d.said)
	}
}

// errUnanswered is what there is to say of a node whose time to answer is not over.
var errUnanswered = &pipeline.CallError{Fate: pipeline.Unknown, Err: errors.New("no answer so far")}

// Outcome returns the verdict on one lock and the votes, as they were when they decided that it
// was not won, otherwise so far. Errs has what there is to say of each node that has not answered
// as it should, as in [Round.Outcome]; nil for the others.
func (b *Batch) Outcome(i int) (v quorum.Verdict, votes quorum.Tally, errs []error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	it := &b.items[i]
	at := it.decided
	if at == nil {
		at = &standing{it.votes, cmp.Or(b.view, b.members.View())}
	}
	errs = make([]error, b.nodes)
	for node := range errs {
		var said error
		if b.errs != nil {
			said = b.errs[node]
		}
		if !at.tells(node, it.verdict) {
			continue
		}
		errs[node] = b.members.Explain(node, said)
		if errs[node] == nil && !it.votes.In().Has(node) {
			errs[node] = errUnanswered
		}
	}
	return it.verdict, at.view.Count(&at.votes, quorum.All(b.nodes)), errs
}
