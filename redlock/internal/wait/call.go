package wait

import (
	"context"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
	"github.com/redquorum/redquorum/redlock/internal/round"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// Call is one call that asks for a lock, and how an attempt at that is made.
//
// Call, [Attempt] and [Failure] have one implementer each, in package redlock: a call, a lock that
// is not held yet, and a QuorumError. They are interfaces because that package imports this one.
// There, the attempt and the failure are types over the lock and the error: these are public, and
// what this package asks of them would be in the API.
type Call interface {
	Wanted() Wanted

	// Try makes one attempt with a round of its own, as TryLock does, and returns its last round;
	// nil if there was none. Yields says that the lock is left to waiters elsewhere that we are
	// told of meanwhile.
	Try(ctx context.Context, yields bool) (Attempt, *round.Round, error)

	// Attempt returns an attempt under a fresh value, and sends nothing.
	Attempt() Attempt

	// Begin says that a round of an attempt begins now: its validity counts from here.
	Begin(a Attempt, now clock.Instant)

	// SendSlot begins a round for one slot of a semaphore, and sends it. Before are the nodes that
	// may have given the attempt one already.
	SendSlot(a Attempt, slot int, before quorum.NodeSet) *round.Round

	// Finish waits for the verdict of a round. Afterwards the lock is held, or the attempt undone.
	Finish(ctx context.Context, a Attempt, r *round.Round) error

	// Waits is told that the call has not got its lock at once; over is told how its wait ended.
	Waits(ctx context.Context, since clock.Instant) (_ context.Context, over func(got Attempt, err error))

	// Refused is told of each round that asked all nodes and did not get the lock, while its
	// attempt goes on.
	Refused(a Attempt, r *round.Round)

	// Failed is told of each attempt that did not get the lock, while the call goes on.
	Failed(f Failure)

	// Part returns the call for one name of several, and Join makes one lock of the locks of such
	// calls, which ends them: one for each name, in their order.
	Part(name string) Call
	Join(ctx context.Context, parts []Attempt) (Attempt, error)
}

// Wanted is what a call waits for.
type Wanted struct {
	Queue  Name     // its wait queue in this process
	Prefix string   // of the keys of its waiters
	Names  []string // what follows the prefix in these keys
	Slots  int      // of a semaphore, of which any will do; 0 for a lock

	Overtaken int // how often others were faster; more than a few make it take places

	Shortest, Longest time.Duration // bounds of the pauses between polls
}

// Attempt is one attempt at a lock, under a value that no other attempt has. Once it was won, it is
// that lock.
type Attempt interface {
	Value() string
	Timeout() time.Duration // how long a round waits for a node
	Key(of int) string      // of the waiters for one of its names

	// Ask returns the question for the lock, or for the place on a wait list that ask describes; it
	// adds to ask what the lock is. Turn says that the node's vote was handed over. Answer reads
	// the reply.
	Ask(ask *wire.Wait, turn bool) pipeline.Request
	Answer(reply any) wire.WaitReply

	// List says that it may be on wait lists from now on. Process names this process there; it is
	// empty until List was called.
	List()
	Process() string

	// Announce keeps new readers out at all nodes: at those in others now, in the background, for
	// the name that it waits for; and at each node that it asks from now on. Announced reports
	// whether it does.
	Announce(of int, others quorum.NodeSet)
	Announced() bool

	// Acquire returns a round that asks all nodes for the lock as TryLock does, and Grant one that
	// asks what the spec says.
	Acquire(how round.Spec, turn bool) *round.Round
	Grant(how *round.Spec) *round.Round

	// GiveUp undoes an attempt in the background. The nodes in only have seen it (none: any may
	// have), and those in kept may hold its value. It returns the failure: for the reason, or
	// without one for what the votes so far say.
	GiveUp(ctx context.Context, r *round.Round, only, kept quorum.NodeSet, reason error) error

	// Failure describes a round that did not get the lock.
	Failure(r *round.Round, reason error) Failure

	// Guard returns a context that ends with the lock, once it is held, and Release gives that back
	// in the background.
	Guard(ctx context.Context) context.Context
	Release()
}

// Failure is why an attempt did not get the lock, although a later one may.
type Failure interface {
	error
	Reason() error // matches round.ErrTaken, round.ErrNoQuorum or another
	Ended() error  // of the context that cut the attempt short; nil if none did

	// End returns the error of a wait that ended for another reason, when this is the last failure
	// before that.
	End(why error) error
}
