// Package round asks all nodes the same thing once, at the same time, and counts their votes. A
// [Round] is about one lock, a [Batch] about many. Both are decided as soon as possible. They know
// nothing about locks: a [Spec] says what is asked, and functions are told the votes.
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
	rule     Rule // when the votes decide, and what; nil for decideAny
	rounds   *Rounds
	expected quorum.NodeSet // for a release: the nodes that have or may have the lock
	answer   wire.Meaning   // what the nodes' answers mean

	mu         sync.Mutex     // guards the fields below; never held over a call to a node
	verdict    quorum.Verdict // never changes once it is not pending
	awaited    int8           // 1 + the node of AwaitVote; 0 for none
	nodes      int8           // how many there were when the round was made; others have no part in it
	background bool           // the functions of rounds are told of its votes
	alone      bool           // see [Spec.Alone]
	wake       chan struct{}  // signalled with the verdict; nil while nobody waits for it
	votes      quorum.Ballot
	mayHold    quorum.NodeSet // all nodes except those where the call certainly changed nothing
	holder     Holder         // of the lock that the round won; nil until it is held
	rare       *rare          // nil until needed
}

// Rule says what the votes decide; Pending while they do not decide anything.
type Rule func(votes quorum.Tally) quorum.Verdict

// Vote is one vote of a round.
type Vote struct {
	Node    int
	Kind    quorum.Vote
	Awaited bool // see [Round.AwaitVote]
	Stray   bool // see [Round.Strays]
	Last    bool // all nodes have voted
}

// Holder is told the votes that came after the verdict of a round that won a lock, with no mutex of
// the round held. See [Round.Hold].
type Holder interface{ Late(vote Vote) }

// rare has fields that few rounds need. Every lock and every release pays for each byte of a round.
type rare struct {
	override *Override      // what one node is asked instead; nil where all are asked the same
	onReply  func(int, any) // takes every reply; nil if only the votes count

	errs    []error        // a node's error, by its index; nil while none failed
	fences  []int64        // a granting node's fence, by its index; nil without fencing
	wall    int64          // the clock that the nodes were given
	also    chan struct{}  // closed with the verdict, for all waiters but the first; nil without
	decided *standing      // when the votes decided that it was not won; nil until then
	cut     *standing      // when ctx ended the last wait; nil if it did not
	before  quorum.NodeSet // nodes that may have our value since an earlier round of the attempt

	until clock.Instant // of a release: when its minimum hold ends

	more chan struct{} // signalled at each vote; nil unless more than the verdict is awaited

	confirming *Round // the release that confirms its refusals; nil while nobody waits for that

	choice *choice // nil unless nodes give one of several
}

// Rounds makes rounds of all nodes.
type Rounds struct {
	Members *members.Membership // whose votes count

	// Began is called when a round in the background is sent. Its last vote tells when it is over.
	Began func()

	// Counting is called for each vote of a round in the background, before the vote, or the
	// verdict that it causes, becomes visible. The round's mutex is held, so only Request may be
	// called.
	Counting func(r *Round, node int, kind quorum.Vote)

	// Voted is told it once it has been counted, with no mutex of the round held.
	Voted func(r *Round, vote Vote)

	// Few reports whether a caller has the nodes nearly for itself.
	Few func() bool

	wakes sync.Pool // of chan struct{}, with room for one signal and none in it
}

// Spec is all that makes a round what it is. Its zero values ask all nodes, and count votes only.
type Spec struct {
	Request pipeline.Request // what the nodes are asked
	Meaning wire.Meaning     // of their answers
	Rule    Rule             // when the votes decide; not with Any or Confirms

	Only    quorum.NodeSet // the nodes that have a part in it, if not all; the others count as failed
	Granted quorum.NodeSet // votes that are already in: those nodes are not asked
	Other   *Override      // what one node is asked instead; nil for none

	// Replies takes every reply, also of nodes whose vote does not count; nil for none. It is
	// called on a goroutine of the node.
	Replies func(node int, reply any)

	Wall  int64 // of [wire.Fencing]: keep the fences of the nodes that grant; 0 without fencing
	Fence int64 // of the nodes in Granted

	Any    bool           // each node gives any of several; won when a quorum gave the same one
	One    int            // which of several the round is about; 0 if there is no choice
	Before quorum.NodeSet // nodes that may have our value since an earlier round

	Alone      bool           // who sends it waits for it at once
	Background bool           // nobody may wait for its end: tell [Rounds.Began], Counting and Voted
	Expected   quorum.NodeSet // of a release: the nodes that have or may have the lock
	Until      clock.Instant  // of a release: until when the keys stay taken, for [wire.Retain]
	Confirms   *Round         // of a release: the round whose refusals it confirms
}

// Override is what one node is asked instead of what the others are.
type Override struct {
	Node    int
	Request pipeline.Request
}

// New returns a round that has not been sent.
func (rs *Rounds) New(s *Spec) *Round {
	r := &Round{
		rounds: rs, request: s.Request, answer: s.Meaning, rule: s.Rule, nodes: int8(len(rs.Members.Nodes())),
		expected: s.Expected, background: s.Background, alone: s.Alone,
	}
	r.votes.Granted = s.Granted
	if !s.Only.Empty() {
		r.votes.Failed = quorum.All(r.size()).Minus(s.Only)
	}
	choice := s.newChoice(r.size())
	if s.Other != nil || s.Replies != nil || s.Wall != 0 || choice != nil || !s.Before.Empty() || s.Until != 0 {
		r.rare = &rare{override: s.Other, onReply: s.Replies, before: s.Before, until: s.Until, choice: choice}
	}
	if s.Wall != 0 {
		r.rare.wall = s.Wall
		r.rare.fences = make([]int64, r.size())
		for i := range s.Granted.Nodes() {
			r.rare.fences[i] = s.Fence
		}
	}
	if s.Confirms != nil {
		r.rule = s.Confirms.confirmedBy(r)
	}
	return r
}

// Until returns when the minimum hold of a release ends. It implements pipeline.Timed. It needs no
// mutex: neither rare nor until changes once the round is sent.
func (r *Round) Until() clock.Instant { return r.rare.until }

func (r *Round) size() int { return int(r.nodes) }

// Nodes returns the nodes that there were when the round was made.
func (r *Round) Nodes() []*pipeline.Node { return r.rounds.Members.Nodes()[:r.nodes] }

// Send asks all nodes. It waits for none of them: the votes of nodes that are down come before it
// returns, the others later. The nodes in keep deliver the call even if they are away now.
//
// Until the first node has its call, the round belongs to its sender. From then on nobody changes
// the requests, and mu guards the rest.
func (r *Round) Send(deadline clock.Instant, keep quorum.NodeSet) {
	if r.background {
		r.rounds.Began()
	}
	nodes := r.Nodes()
	in := r.votes.In() // needs no mutex yet: no call has been made
	r.mayHold = quorum.All(len(nodes)).Minus(r.votes.Refused.Or(r.votes.Failed))
	r.prepare(&r.request, deadline)
	other := -1 // the node that is asked something else
	var override *pipeline.Request
	if r.rare != nil && r.rare.override != nil {
		other, override = r.rare.override.Node, &r.rare.override.Request
		r.prepare(override, deadline)
	}
	view := r.rounds.Members.View()
	if !in.Empty() {
		r.decideLocked()
	}
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
	if r.rounds.Members.View() != view {
		r.Recount()
	}
}

// askedLocked returns what a node is asked.
func (r *Round) askedLocked(node int) *pipeline.Request {
	if r.rare != nil && r.rare.override != nil && node == r.rare.override.Node {
		return &r.rare.override.Request
	}
	return &r.request
}

func (r *Round) prepare(request *pipeline.Request, deadline clock.Instant) {
	request.Deadline, request.Sink = deadline, r
	request.Direct = r.rounds.Few()
	request.Collects = request.Direct && r.alone && r.nodes == 1 // of several nodes, one caller can wait for one only
	request.Prove = request.Prove && r.rounds.Members.Proves()
}

// unasked returns the vote of a node that is not asked, as it has nothing of ours that was sent
// there before, and is the same server as another one, which is asked, or no member of the cluster.
func unasked(view *members.View, node int, keep quorum.NodeSet) error {
	switch {
	case view.Duplicates.Has(node) && !keep.Has(node): // it may have been asked before that was known
		return errDuplicate
	case view.NonMembers.Has(node) && (!keep.Has(node) || view.Free.Has(node)):
		return errNonMember
	default:
		return nil
	}
}

var (
	errDuplicate = &pipeline.CallError{Fate: pipeline.Unsent, Err: fmt.Errorf("%w: the same server as another node", pipeline.ErrRefused)}
	errNonMember = &pipeline.CallError{Fate: pipeline.Unsent, Err: members.ErrNotMember}
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
		r.mayHold.Remove(node)
	}
	if v == quorum.Refused && r.rare != nil && r.rare.choice == nil {
		r.rare.before.Remove(node) // it ran what it was asked before this
	}
	stray := false
	if r.rare != nil && r.rare.choice != nil {
		v, stray = r.chooseLocked(node, v, reply)
	}
	r.votes.Add(node, v)
	if v == quorum.Granted && r.rare != nil && r.rare.fences != nil {
		r.rare.fences[node] = wire.Fence(reply, r.rare.wall)
	}
	if err != nil {
		r.failLocked(node, err)
	}
	if r.background {
		r.rounds.Counting(r, node, v)
	}
	r.decideLocked()
	r.tellMoreLocked()
	vote := Vote{
		Node: node, Kind: v, Awaited: int(r.awaited) == 1+node, Stray: stray, Last: r.votes.In() == quorum.All(r.size()),
	}
	holder, confirming := r.holder, r.confirmingLocked()
	r.mu.Unlock()
	if r.background {
		r.rounds.Voted(r, vote)
	}
	if confirming != nil {
		confirming.decide()
	}
	if holder != nil {
		holder.Late(vote)
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

// decideLocked gives the round its verdict if the votes decide.
func (r *Round) decideLocked() { r.recountLocked(false) }

// recountLocked is decideLocked, and returns by which View the votes were counted. Between two
// votes, only a win is final (onlyWon): while a client learns a newer list, votes that are in do
// not count for a moment.
func (r *Round) recountLocked(onlyWon bool) *members.View {
	view := r.rounds.Members.View()
	if r.verdict != quorum.Pending {
		return view
	}
	if r.rule == nil {
		r.verdict = r.decideAny(view)
	} else {
		r.verdict = r.rule(r.count(&r.votes, view))
	}
	if onlyWon && r.verdict != quorum.Won {
		r.verdict = quorum.Pending
	}
	if r.verdict == quorum.Pending {
		return view
	}
	if r.rare != nil && r.rare.choice != nil {
		r.settleLocked()
	}
	if r.verdict != quorum.Won { // whoever was granted what it asked for seldom tells of it
		r.rareLocked().decided = &standing{r.votes, view}
	}
	if r.wake != nil {
		r.wake <- struct{}{} // there is room: it is the only signal
		r.wake = nil
	}
	if r.rare != nil && r.rare.also != nil {
		close(r.rare.also)
	}
	return view
}

// count returns what votes say by a view. It reads nothing of the round that changes once it is
// made, but votes may be those that mu guards.
func (r *Round) count(votes *quorum.Ballot, view *members.View) quorum.Tally {
	asked := quorum.All(r.size())
	if r.expected.Empty() {
		return view.Count(votes, asked)
	}
	return view.CountRelease(votes, asked, r.expected)
}

// standing is the votes of a moment, and whose of them counted.
type standing struct {
	votes quorum.Ballot
	view  *members.View
}

func (r *Round) standingLocked() *standing { return &standing{r.votes, r.rounds.Members.View()} }
