// Package round asks all nodes the same thing once, at the same time, and counts their votes. A
// [Round] is about one lock, a [Batch] about many. Both are decided as soon as possible and report
// to an observer: they know nothing about locks.
package round

import (
	"fmt"
	"sync"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/redlock/internal/members"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// Round asks every node the same thing once, at the same time, and counts their votes. It is
// decided as soon as no outstanding vote can change the verdict, at the latest at the deadline,
// when every node has answered or been given up.
//
//	Send ──▶ count ──▶ decide ──▶ (the caller undoes what was not won)
//
// A round may begin with votes that are already in: those nodes are not asked.
type Round struct {
	request  pipeline.Request
	rule     Rule // when the votes decide, and what
	rounds   *Rounds
	expected quorum.NodeSet // for a release: the nodes that have or may have the lock
	answer   wire.Meaning   // what the nodes' answers mean

	mu       sync.Mutex     // guards the fields below; never held over a call to a node
	verdict  quorum.Verdict // never changes once it is not pending
	awaited  int8           // 1 + the node of AwaitVote; 0 for none
	nodes    int8           // how many there were when the round was made; others have no part in it
	wake     chan struct{}  // signalled with the verdict; nil while nobody waits for it
	votes    quorum.Ballot
	touched  quorum.NodeSet // all nodes except those where the call certainly changed nothing
	observer Observer       // nil for none
	rare     *rare          // nil until needed
}

// Rule says what the votes decide; Pending while they do not decide anything.
type Rule func(votes quorum.Tally) quorum.Verdict

// Observer is told each vote of a round, twice.
type Observer interface {
	// Counting comes before anybody can see the vote or the verdict that it brings. The round's
	// mutex is held, so only Request may be called.
	Counting(r *Round, node int, kind quorum.Vote)

	// Voted comes once the vote has been counted, with no mutex of the round held.
	Voted(r *Round, vote Vote)
}

// Vote is what an [Observer] is told of a vote.
type Vote struct {
	Node    int
	Kind    quorum.Vote
	Awaited bool // see [Round.AwaitVote]
	Stray   bool // see [Round.Strays]
	Last    bool // all nodes have voted
}

// override is what one node is asked instead of what the others are.
type override struct {
	node    int
	request pipeline.Request
}

// rare has fields that few rounds need. Every lock and every release pays for each byte of a round.
type rare struct {
	override *override      // what one node is asked instead; nil where all are asked the same
	onReply  func(int, any) // takes every reply; nil if only the votes count

	errs   []error        // a node's error, by its index; nil while none failed
	fences []int64        // a granting node's fence, by its index; nil without fencing
	also   chan struct{}  // closed with the verdict, for all waiters but the first; nil without
	cut    *quorum.Tally  // the votes when ctx ended a wait; nil if none did
	before quorum.NodeSet // nodes that may have our value since an earlier round of the attempt

	until clock.Instant // of a release: when its minimum hold ends

	more chan struct{} // signalled at each vote; nil unless more than the verdict is awaited

	choice *choice // nil unless nodes give one of several
}

// Rounds makes rounds of all nodes.
type Rounds struct {
	Members *members.Membership // whose votes count
	wakes   sync.Pool           // of chan struct{}, with room for one signal and none in it
}

// New returns a round that has not been sent. Until it is, the methods above Send may change it.
func (rs *Rounds) New(request pipeline.Request, answer wire.Meaning, rule Rule) *Round {
	return &Round{rounds: rs, request: request, answer: answer, rule: rule, nodes: int8(len(rs.Members.Nodes()))}
}

// Observe sets the observer of the votes.
func (r *Round) Observe(observer Observer) { r.observer = observer }

// TakeReplies makes the round call f with every reply, including those of nodes whose vote does not
// count. F is called on a goroutine of the node.
func (r *Round) TakeReplies(f func(node int, reply any)) { r.rareLocked().onReply = f }

// Override makes one node be asked something else.
func (r *Round) Override(node int, request pipeline.Request) {
	r.rareLocked().override = &override{node, request}
}

// Only restricts the round to some nodes. The others count as failed.
func (r *Round) Only(nodes quorum.NodeSet) { r.votes.Failed = quorum.All(r.size()).Minus(nodes) }

// Grant counts votes that are already in: those nodes are not asked.
func (r *Round) Grant(nodes quorum.NodeSet) { r.votes.Granted = nodes }

// Decide replaces the rule.
func (r *Round) Decide(rule Rule) { r.rule = rule }

// Expect sets which nodes have or may have the lock, for a release.
func (r *Round) Expect(nodes quorum.NodeSet) { r.expected = nodes }

// Before sets which nodes may have our value since an earlier round.
func (r *Round) Before(nodes quorum.NodeSet) { r.rareLocked().before = nodes }

// Retain sets until when the keys of a release stay taken, for [wire.Retain].
func (r *Round) Retain(until clock.Instant) { r.rareLocked().until = until }

// Until returns what Retain set. It implements pipeline.Timed. It needs no mutex: neither rare nor
// until changes once the round is sent.
func (r *Round) Until() clock.Instant { return r.rare.until }

// CollectFences makes the round keep the fences of the nodes that grant.
func (r *Round) CollectFences() { r.rareLocked().fences = make([]int64, r.size()) }

// SetFence sets the fence of a node whose vote is already in, if the round keeps fences.
func (r *Round) SetFence(node int, fence int64) {
	if r.rare != nil && r.rare.fences != nil {
		r.rare.fences[node] = fence
	}
}

func (r *Round) size() int { return int(r.nodes) }

// Nodes returns the nodes that there were when the round was made.
func (r *Round) Nodes() []*pipeline.Node { return r.rounds.Members.Nodes()[:r.nodes] }

// Send asks all nodes. It waits for none of them: the votes of nodes that are down come before it
// returns, the others later. The nodes in keep deliver the call even if they are away now.
func (r *Round) Send(deadline clock.Instant, keep quorum.NodeSet) {
	nodes := r.Nodes()
	in := r.votes.In() // needs no mutex yet: no call has been made
	r.touched = quorum.All(len(nodes)).Minus(r.votes.Refused.Or(r.votes.Failed))
	r.prepare(&r.request, deadline)
	other := -1 // the node that is asked something else
	var override *pipeline.Request
	if r.rare != nil && r.rare.override != nil {
		other, override = r.rare.override.node, &r.rare.override.request
		r.prepare(override, deadline)
	}
	if !in.Empty() {
		r.decideLocked()
	}
	view := r.rounds.Members.View()
	for i, node := range nodes {
		if in.Has(i) {
			continue
		}
		if err := unasked(view, i, keep); err != nil {
			r.Complete(i, nil, err)
			continue
		}
		call := pipeline.Call{Request: &r.request, Index: int16(i), Keep: keep.Has(i)}
		if i == other {
			call.Request = override
		}
		node.Do(call)
	}
}

// askedLocked returns what a node is asked.
func (r *Round) askedLocked(node int) *pipeline.Request {
	if r.rare != nil && r.rare.override != nil && node == r.rare.override.node {
		return &r.rare.override.request
	}
	return &r.request
}

func (r *Round) prepare(request *pipeline.Request, deadline clock.Instant) {
	request.Deadline, request.Sink = deadline, r
	request.Prove = request.Prove && r.rounds.Members.Proves()
}

// unasked returns the vote of a node that is not asked: it is the same server as another one, which
// is asked, or it is no member of the cluster, and has nothing of ours from when it was one.
func unasked(view *members.View, node int, keep quorum.NodeSet) error {
	switch {
	case view.Duplicates.Has(node):
		return errDuplicate
	case view.Strangers.Has(node) && !keep.Has(node):
		return errStranger
	default:
		return nil
	}
}

var (
	errDuplicate = &pipeline.CallError{Fate: pipeline.Unsent, Err: fmt.Errorf("%w: the same server as another node", pipeline.ErrRefused)}
	errStranger  = &pipeline.CallError{Fate: pipeline.Unsent, Err: members.ErrNotMember}
)

// Proven counts a node's vote, if the node proved that it remembers. It implements pipeline.Prover.
func (r *Round) Proven(node int, reply any, proof *pipeline.Proof) {
	if !r.rounds.Members.Proven(node, proof) {
		r.mu.Lock()
		r.takeLocked(node, reply) // its answer is shown, but does not count
		r.mu.Unlock()
		r.Complete(node, nil, members.ErrUnproven)
		return
	}
	r.Complete(node, reply, nil)
}

// Complete counts a node's vote. It implements pipeline.Sink.
func (r *Round) Complete(node int, reply any, err error) {
	v := quorum.Failed
	if err == nil {
		v = r.answer.Vote(reply)
	}
	r.mu.Lock()
	if err == nil {
		r.takeLocked(node, reply)
	}
	if v == quorum.Refused || (v == quorum.Failed && untouched(err) && (r.askedLocked(node).Script == nil || !midway(err))) {
		r.touched.Remove(node)
	}
	stray := false
	if r.rare != nil && r.rare.choice != nil {
		v, stray = r.chooseLocked(node, v, reply)
	}
	r.votes.Add(node, v)
	if v == quorum.Granted && r.rare != nil && r.rare.fences != nil {
		r.rare.fences[node] = wire.Fence(reply)
	}
	if err != nil {
		r.failLocked(node, err)
	}
	if r.observer != nil {
		r.observer.Counting(r, node, v)
	}
	r.decideLocked()
	r.tellMoreLocked()
	vote := Vote{
		Node: node, Kind: v, Awaited: int(r.awaited) == 1+node, Stray: stray, Last: r.votes.In() == quorum.All(r.size()),
	}
	observer := r.observer
	r.mu.Unlock()
	if observer != nil {
		observer.Voted(r, vote)
	}
}

// takeLocked passes a reply on, if anybody wants more than the votes. Meanwhile mu is free.
func (r *Round) takeLocked(node int, reply any) {
	if r.rare == nil || r.rare.onReply == nil {
		return
	}
	take := r.rare.onReply
	r.mu.Unlock()
	defer r.mu.Lock()
	take(node, reply)
}

func (r *Round) decideLocked() {
	if r.verdict != quorum.Pending {
		return
	}
	if r.verdict = r.rule(r.tallyLocked()); r.verdict == quorum.Pending {
		return
	}
	if r.rare != nil && r.rare.choice != nil {
		r.settleLocked()
	}
	if r.wake != nil {
		r.wake <- struct{}{} // there is room: it is the only signal
		r.wake = nil
	}
	if r.rare != nil && r.rare.also != nil {
		close(r.rare.also)
	}
}

func (r *Round) tallyLocked() quorum.Tally {
	view, asked := r.rounds.Members.View(), quorum.All(r.size())
	if r.expected.Empty() {
		return view.Count(&r.votes, asked)
	}
	return view.CountRelease(&r.votes, asked, r.expected)
}
