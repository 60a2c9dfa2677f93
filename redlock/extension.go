package redlock

import (
	"errors"
	"sync"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/pipeline"
)

// maxExtended bounds the keys of one extension: a script that long keeps a node busy for less than a millisecond, and its
// reply is far below the limits of what a node may answer.
const maxExtended = 256

// extension is a round that gives many locks a new time to live: one script per node, the votes counted per lock. Extend
// makes one of a single lock, renewal of all that are due.
type extension struct {
	locker  *Locker
	request pipeline.Request
	calls   []pipeline.Call
	start   clock.Instant // before the first byte was sent
	epoch   uint64        // of the electorate at that time
	items   []extended
	decided chan struct{} // closed when the first item has its verdict

	mu      sync.Mutex // guards the fields below; never held over a call to a node, nor together with a lock's mutex taken later
	sending bool       // the locks' mutexes are held: verdicts wait
	errs    []error    // a node's error at its index; nil while none failed
}

// extended is one lock of an extension.
type extended struct {
	lock    *Lock
	until   clock.Instant // the validity, if it is granted
	keys    int           // that it has
	granted uint64
	refused uint64  // healed ones included
	failed  uint64  // nodes that failed for this lock
	mayHold uint64  // nodes unless the call has certainly changed nothing there
	verdict verdict // final once it is not pending
	told    bool    // the lock has taken the verdict
}

// extend sends an extension of the locks that are held and have none under way, each with a TTL of its own choice. It
// returns nil where there is none.
//
// All their mutexes are held until every node has been given its call, so that no release of one of them comes between: behind
// its release, an extension would bring a key back. Only renew takes the mutexes of many locks, one batch at a time, so there is
// no order to keep.
func (l *Locker) extend(locks []*Lock, ttl func(*Lock) time.Duration) *extension {
	x := &extension{
		locker: l, epoch: l.voters.now(), start: l.clock.Now(), sending: true,
		items: make([]extended, 0, len(locks)), decided: make(chan struct{}),
	}
	var timeout time.Duration
	args := make([]any, 2, 2+3*len(locks))
	for _, lock := range locks {
		lock.mu.Lock()
		if lock.expireLocked(x.start); lock.err != nil || lock.extending {
			if lock.state == lost && lock.release == nil && x.start >= lock.undoAtLocked() {
				lock.undoNowLocked() // as planned
			}
			lock.mu.Unlock()
			continue
		}
		lock.beginExtensionLocked(x, ttl(lock))
		timeout = max(timeout, lock.timeout)
		args = append(args, lock.keys...)
	}
	if len(x.items) == 0 {
		return nil
	}
	args[0], args[1] = extendScript.Digest(), len(args)-2
	for i := range x.items {
		lock := x.items[i].lock
		for range lock.keys {
			args = append(args, lock.valueArg, lock.ttl.Milliseconds())
		}
	}
	x.request = pipeline.Request{
		Script: extendScript, Args: args, Accept: isArray, Prove: l.voters.proves(), Deadline: x.start.Add(timeout), Sink: x,
	}
	if len(x.items) == 1 && len(x.items[0].lock.keys) == 1 {
		x.request.Key = x.items[0].lock.key()
	}
	x.send()
	return x
}

// beginExtensionLocked adds a held lock to an extension. A TTL shorter than what is left shortens its validity before a
// byte is sent: nodes that take it forget the lock earlier, whatever becomes of the round.
func (lock *Lock) beginExtensionLocked(x *extension, ttl time.Duration) {
	l := lock.locker
	lock.ttl = ttl.Truncate(time.Millisecond)
	lock.timeout = l.config.timeout(lock.ttl)
	until := lock.boundedLocked(l.config.drift.Validity(x.start, lock.ttl))
	if until < lock.until {
		lock.until = until
		l.expiry.add(lock, until)
	}
	lock.extending, lock.healing = true, true
	x.items = append(x.items, extended{lock: lock, until: until, keys: len(lock.keys), mayHold: allNodes(len(l.nodes))})
}

// send asks all nodes, lets go of the locks, and takes the verdicts that are there already.
func (x *extension) send() {
	nodes := x.locker.nodes
	x.calls = make([]pipeline.Call, len(nodes))
	twins := x.locker.voters.present.Load().duplicates
	for i, node := range nodes {
		call := &x.calls[i]
		call.Request, call.Index = &x.request, int32(i)
		if twins>>i&1 == 1 {
			x.Complete(call, nil, errTwin)
			continue
		}
		node.Do(call)
	}
	for i := range x.items {
		x.items[i].lock.mu.Unlock()
	}
	x.mu.Lock()
	x.sending = false
	decided := x.decideLocked()
	x.mu.Unlock()
	x.tell(decided)
}

// Proven counts a node's votes, if it proved that it remembers. It implements pipeline.Prover.
func (x *extension) Proven(call *pipeline.Call, reply any, proof *pipeline.Proof) {
	if !x.locker.voters.proven(int(call.Index), proof) {
		x.Complete(call, nil, errUnproven)
		return
	}
	x.Complete(call, reply, nil)
}

// Complete counts a node's votes. It implements pipeline.Sink.
func (x *extension) Complete(call *pipeline.Call, reply any, err error) {
	replies, _ := reply.([]any)
	bit := uint64(1) << call.Index
	x.mu.Lock()
	if err != nil {
		x.failLocked(int(call.Index), err)
	}
	for i := range x.items {
		item := &x.items[i]
		if err != nil {
			item.failed |= bit
			if untouched(err) {
				item.mayHold &^= bit
			}
			continue
		}
		n := min(item.keys, len(replies))
		x.voteLocked(item, int(call.Index), replies[:n])
		replies = replies[n:]
	}
	decided := x.decideLocked()
	x.mu.Unlock()
	x.tell(decided)
}

func (x *extension) failLocked(node int, err error) {
	if x.errs == nil {
		x.errs = make([]error, len(x.calls))
	}
	x.errs[node] = err
}

// voteLocked counts a node's votes on the keys of one lock as one vote: it grants when all do.
func (x *extension) voteLocked(item *extended, node int, replies []any) {
	bit := uint64(1) << node
	v := granted
	if len(replies) < item.keys {
		v = failed
	}
	touched := v == failed
	for _, reply := range replies {
		switch k := readExtend(reply); {
		case k == failed:
			v = failed
			words, _ := reply.([]byte)
			x.failLocked(node, &pipeline.CallError{Fate: pipeline.Refused, Err: errors.New(string(words))})
		case k != granted && v != failed:
			v = refused
			touched = touched || k == healed
		case k == granted:
			touched = true
		}
	}
	switch v {
	case granted, handed, spared:
		item.granted |= bit
	case failed:
		item.failed |= bit
	case refused, healed:
		item.refused |= bit
	}
	if !touched {
		item.mayHold &^= bit
	}
}

// readExtend reads one of the votes that extend.lua returns.
func readExtend(reply any) vote {
	switch reply {
	case int64(1):
		return granted
	case int64(2):
		return healed
	case int64(0):
		return refused
	default:
		return failed
	}
}

// decideLocked returns the items whose verdict has become final, as they are now: later votes go on to change them.
func (x *extension) decideLocked() (decided []extended) {
	if x.sending {
		return nil
	}
	for i := range x.items {
		item := &x.items[i]
		if item.told {
			continue
		}
		votes := x.locker.voters.count(len(x.calls), item.granted, item.refused, item.failed)
		if item.verdict = decideHeld(votes); item.verdict != pending {
			item.told = true
			if decided == nil {
				decided = make([]extended, 0, len(x.items)-i)
			}
			decided = append(decided, *item)
		}
	}
	return decided
}

// tell lets the locks take their verdicts.
func (x *extension) tell(decided []extended) {
	for i := range decided {
		lock := decided[i].lock
		lock.takeExtension(x, &decided[i])
		if lock == x.items[0].lock {
			close(x.decided)
		}
	}
}

func isArray(reply any) bool {
	_, ok := reply.([]any)
	return ok
}
