package redlock

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/pool"
)

// Status is what the nodes know of a lock, at about one moment. Nodes whose vote does not count (quarantined ones, see [Stats]) are shown, and
// count neither for Value nor for Free.
type Status struct {
	Name   string
	Value  string       // what a quorum of nodes holds; empty where no value has one
	Owner  string       // of that value, see WithOwner
	Nodes  []NodeStatus // in the order of the endpoints
	Free   bool         // a quorum of nodes holds nothing
	Quorum int          // nodes that a quorum takes
}

// NodeStatus is what one node knows of a lock.
type NodeStatus struct {
	Endpoint string        // without user and password
	Value    string        // empty where the node holds nothing
	Owner    string        // what is behind the | of the value
	TTL      time.Duration // how long the node keeps it; negative where it does not expire
	Fence    int64         // the fencing counter; 0 where there is none
	Waiting  int           // processes that wait for the lock at this node
	Err      error         // why the node did not tell, or what it told does not count
}

// Inspect asks every node who holds a lock. It changes nothing. It returns what there is to tell by the node timeout or the end of ctx;
// the error is [ErrNoQuorum] in a [*QuorumError] when fewer than a quorum of nodes told, along with what they told.
func (l *Locker) Inspect(ctx context.Context, name string) (Status, error) {
	cfg, err := l.config.lockConfig(ctx, name, nil)
	if err != nil {
		return Status{}, err
	}
	if !l.enter() {
		return Status{}, ErrClosed
	}
	defer l.leave()
	var mu sync.Mutex
	replies := make([]any, len(l.nodes))
	r := &round{decided: make(chan struct{})}
	r.request = pipeline.Request{
		Script: inspectScript, Args: inspectScript.Args(nil, []any{l.config.keyPrefix + name}), Accept: isArray, Prove: l.voters.proves(),
	}
	r.keep = func(node int, reply any) {
		mu.Lock()
		replies[node] = reply
		mu.Unlock()
	}
	r.read = func(any) vote { return granted }
	r.rule = func(votes tally) verdict { // not before all have answered or failed
		if votes.outstanding() > 0 {
			return pending
		}
		return decideHeld(votes)
	}
	timeout := l.config.timeout(cfg.ttl)
	deadline := l.clock.Now().Add(timeout)
	l.settle(ctx, timeout)
	r.send(l, deadline, 0)
	v, ended := r.wait(ctx)
	mu.Lock()
	defer mu.Unlock()
	status := l.status(name, replies, r)
	if v == won || (v == pending && r.quorumAnswered()) {
		return status, nil
	}
	return status, r.failure(l, "inspect", name, ErrNoQuorum, ended)
}

func (l *Locker) status(name string, replies []any, r *round) Status {
	s := Status{Name: name, Nodes: make([]NodeStatus, len(l.nodes)), Quorum: quorum(len(l.nodes))}
	held := map[string]int{}
	for i, node := range l.nodes {
		n := &s.Nodes[i]
		n.Endpoint = node.Endpoint()
		pair, _ := replies[i].([]any)
		if len(pair) != 4 {
			if n.Err = r.nodeError(i); n.Err == nil {
				n.Err = pool.ErrTimeout
			}
			n.Err = l.unproven(i, n.Err)
			continue
		}
		value, _ := pair[0].([]byte)
		ttlMillis, _ := pair[1].(int64)
		fence, _ := pair[2].([]byte)
		waiting, _ := pair[3].(int64)
		n.Value, n.Waiting = string(value), int(waiting)
		n.Fence, _ = strconv.ParseInt(string(fence), 10, 64) //nolint:errcheck // not a number: 0
		_, n.Owner, _ = strings.Cut(n.Value, "|")
		if n.TTL = time.Duration(ttlMillis) * time.Millisecond; n.Value == "" {
			n.TTL = 0
		}
		if r.hasGranted(i) {
			held[n.Value]++
		} else {
			n.Err = l.unproven(i, r.nodeError(i))
		}
		if held[n.Value] >= s.Quorum {
			s.Value, s.Owner, s.Free = n.Value, n.Owner, n.Value == ""
		}
	}
	return s
}

// ForceUnlock deletes a lock on every node, whoever holds it, or hands it to those who wait for it:
// for people who know that its holder is gone. A holder that is not learns of it at its next round,
// with [WithoutRenewal] at the end of its validity, and until then believes that it holds the lock.
// It returns nil when a quorum of nodes has deleted it, handed it over or held nothing; nodes that
// are away keep it until its TTL ends.
func (l *Locker) ForceUnlock(ctx context.Context, name string) error {
	cfg, err := l.config.lockConfig(ctx, name, nil)
	if err != nil {
		return err
	}
	if !l.enter() {
		return ErrClosed
	}
	defer l.leave()
	if ctx.Err() != nil {
		return fmt.Errorf("redlock: force-unlock %q: %w", name, endOf(ctx))
	}
	key, timeout := l.config.keyPrefix+name, l.config.timeout(cfg.ttl)
	r := &round{
		request: pipeline.Request{Script: forceScript, Args: forceScript.Args(nil, []any{key}, l.grace(timeout)), Key: key, Accept: isInteger},
		read:    func(any) vote { return granted },
		rule:    decideHeld, decided: make(chan struct{}),
	}
	deadline := l.clock.Now().Add(timeout)
	l.settle(ctx, timeout)
	r.send(l, deadline, 0)
	v, ended := r.wait(ctx)
	if v == won {
		return nil
	}
	return r.failure(l, "force-unlock", name, ErrNoQuorum, ended)
}
