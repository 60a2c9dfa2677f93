package round

import (
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
	sending bool    // verdicts are held back
	errs    []error // a node's error, by its index; nil while none failed
}

// BatchObserver is told the verdict on each lock, once, and then of each node that answers later
// whether somebody else has a key of the lock there, or the lock has it back. No mutex of the
// batch is held then.
type BatchObserver interface {
	Decided(item int, result Result)
	Late(item int, taken, back quorum.NodeSet)
}

// Result is the outcome for one lock of a batch, when it was decided. Later votes still change the
// batch.
type Result struct {
	Verdict quorum.Verdict
	MayHold quorum.NodeSet // all nodes except those where the call certainly changed nothing
	Taken   quorum.NodeSet // nodes where somebody else has a key of the lock
	Back    quorum.NodeSet // nodes that have it again since before, or since this batch
}

// item is one lock of a batch.
type item struct {
	keys    int // how many it has
	votes   quorum.Ballot
	mayHold quorum.NodeSet
	lacked  quorum.NodeSet // where somebody else had a key before
	taken   quorum.NodeSet
	verdict quorum.Verdict // final once it is not pending
	told    bool           // the observer has been told
	decided *standing      // with a verdict that it was not won
}

// NewBatch returns a batch with room for this many locks.
func NewBatch(ms *members.Membership, locks int, observer BatchObserver) *Batch {
	return &Batch{members: ms, nodes: len(ms.Nodes()), observer: observer, items: make([]item, 0, locks), sending: true}
}

// Add adds a lock with this many keys. Where it lacked one, because somebody else had it, it may
// have been handed that key since. Such a node counts as healed: the other one may have held the
// lock in between, and the votes of those who noticed that must not be outweighed by this one.
func (b *Batch) Add(keys int, lacked quorum.NodeSet) {
	b.items = append(b.items, item{keys: keys, mayHold: quorum.All(b.nodes), lacked: lacked})
}

// back returns the nodes that have answered that they have the lock again.
func (it *item) back() quorum.NodeSet { return it.votes.Refused.And(it.mayHold).Minus(it.taken) }

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
	decided := b.decideLocked()
	b.mu.Unlock()
	b.tell(decided)
}

// Proven counts a node's votes, if the node proved that it remembers. It implements
// pipeline.Prover.
func (b *Batch) Proven(node int, reply any, proof *pipeline.Proof) {
	if !b.members.Proven(node, proof) {
		b.Complete(node, nil, members.ErrUnproven)
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
		if err != nil {
			it.votes.Add(node, quorum.Failed)
			if untouched(err) {
				it.mayHold.Remove(node)
			}
			continue
		}
		v, mayHold, taken, said := answer.Next(it.keys)
		if v == quorum.Granted && it.lacked.Has(node) {
			v = quorum.Refused
		}
		it.votes.Add(node, v)
		if taken {
			it.taken.Add(node)
		}
		if v == quorum.Refused && it.told {
			late = append(late, i)
		}
		if said != nil {
			b.failLocked(node, said)
		}
		if !mayHold {
			it.mayHold.Remove(node)
		}
	}
	decided := b.decideLocked()
	b.mu.Unlock()
	b.tell(decided)
	for _, i := range late {
		b.tellLate(i, quorum.Only(node))
	}
}

func (b *Batch) tellLate(i int, node quorum.NodeSet) {
	b.mu.Lock()
	it := &b.items[i]
	taken, back := it.taken, it.back()
	b.mu.Unlock()
	b.observer.Late(i, taken.And(node), back.And(node))
}

func (b *Batch) failLocked(node int, err error) {
	if b.errs == nil {
		b.errs = make([]error, b.nodes)
	}
	b.errs[node] = err
}

// decision is the result of one lock of a batch: a copy, which the observer is told once mu is
// free.
type decision struct {
	item   int
	result Result
}

// decideLocked returns the locks whose verdict has become final. Each is returned once, to whoever
// calls this under mu first, and that goroutine tells the observer.
func (b *Batch) decideLocked() (decided []decision) {
	if b.sending {
		return nil
	}
	view, asked := b.members.View(), quorum.All(b.nodes)
	for i := range b.items {
		it := &b.items[i]
		if it.told {
			continue
		}
		votes := view.Count(&it.votes, asked)
		if it.verdict = quorum.DecideHeld(votes); it.verdict != quorum.Pending {
			it.told = true
			if it.verdict != quorum.Won {
				it.decided = &standing{it.votes, view}
			}
			if decided == nil {
				decided = make([]decision, 0, len(b.items)-i)
			}
			decided = append(decided, decision{i, Result{it.verdict, it.mayHold, it.taken, it.back()}})
		}
	}
	return decided
}

func (b *Batch) tell(decided []decision) {
	for _, d := range decided {
		b.observer.Decided(d.item, d.result)
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
		at = &standing{it.votes, b.members.View()}
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
