package redlock

import (
	"context"
	"sync"

	"github.com/hashicorp/go-multierror"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/pool"
)

// round asks every node the same thing once, at the same time, and counts their votes. It is decided as soon as no vote
// that is still out can change the verdict, at the latest at the node timeout, when every node has answered or been given up.
//
//	send ──▶ count ──▶ decide ──▶ (undo, where the verdict is not won)
type round struct {
	request pool.Request
	calls   []pool.Call                // one per node
	room    [5]pool.Call               // for the usual number of nodes
	read    func(reply any) vote       // what a node's answer means
	rule    func(votes *tally) verdict // when the votes decide, and what
	decided chan struct{}              // closed with the verdict; nil where nobody waits
	locker  *Locker                    // left with the last vote; nil where nobody entered for the round

	mu      sync.Mutex // guards the fields below; never held over a call to a node
	votes   tally
	verdict verdict // final once decided is closed, and then read without mu
	touched uint64  // a bit per node: set unless the call has certainly changed nothing there
	errs    []error // a node's error at its index; nil while none failed
}

// send asks all nodes. It waits for none of them: the votes of nodes that are down come before it returns, the others
// later. Where keep has a node's bit, the node delivers the call even if it is away now.
func (r *round) send(nodes []*pool.Node, deadline clock.Instant, keep uint64) {
	if r.calls = r.room[:min(len(nodes), len(r.room))]; len(nodes) > len(r.room) {
		r.calls = make([]pool.Call, len(nodes))
	}
	r.votes.nodes = len(nodes)
	r.touched = allNodes(len(nodes))
	r.request.Deadline = deadline
	r.request.Sink = r
	for i, node := range nodes {
		call := &r.calls[i]
		call.Request, call.Index, call.Keep = &r.request, int32(i), keep>>i&1 == 1
		node.Do(call)
	}
}

func allNodes(n int) uint64 { return ^uint64(0) >> (maxNodes - n) }

// Complete counts a node's vote. It implements pool.Sink.
func (r *round) Complete(call *pool.Call, reply any, err error) {
	v := failed
	if err == nil {
		v = r.read(reply)
	}
	r.mu.Lock()
	r.votes.add(v)
	if v == refused || (v == failed && untouched(err)) {
		r.touched &^= 1 << call.Index
	}
	if err != nil {
		if r.errs == nil {
			r.errs = make([]error, len(r.calls))
		}
		r.errs[call.Index] = err
	}
	if r.verdict == pending {
		if r.verdict = r.rule(&r.votes); r.verdict != pending && r.decided != nil {
			close(r.decided)
		}
	}
	last := r.votes.outstanding() == 0
	r.mu.Unlock()
	if last && r.locker != nil {
		r.locker.leave()
	}
}

// wait returns the verdict, or pending and the context's error where ctx ends first.
func (r *round) wait(ctx context.Context) (verdict, error) {
	select {
	case <-r.decided:
	case <-ctx.Done():
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.verdict == pending {
			return pending, endOf(ctx)
		}
	}
	return r.verdict, nil // written before decided was closed, and never again
}

// mayHold has the bits of the nodes where the round has, or may have, or may yet, set our value.
func (r *round) mayHold() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.touched
}

// failure describes the round as it stands, for the caller.
func (r *round) failure(l *Locker, op, name string, reason, ended error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := &QuorumError{
		Op: op, Name: name, Need: quorum(r.votes.nodes), Granted: r.votes.granted, Refused: r.votes.refused,
		reason: reason, ended: ended,
	}
	for i, err := range r.errs {
		if err != nil {
			e.Nodes = multierror.Append(e.Nodes, &NodeError{Endpoint: l.nodes[i].Endpoint(), Err: err})
		}
	}
	return e
}

// quorumAnswered reports whether a quorum of nodes granted or refused so far.
func (r *round) quorumAnswered() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.votes.granted+r.votes.refused >= quorum(r.votes.nodes)
}
