// Package door is what the other packages of this module may ask of a *redlock.Locker, and no other
// program. Package redlock fills it before main begins, so it need not show any of this in its API.
package door

import (
	"context"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/journal"
	"github.com/redquorum/redquorum/internal/ledger"
	"github.com/redquorum/redquorum/internal/look"
	"github.com/redquorum/redquorum/internal/pipeline"
)

// Of opens the door of a *redlock.Locker. It takes nothing else.
var Of func(locker any) Door

// OnlyLooks is a redlock.Option: the Locker changes nothing at the masters on its own. It lets none
// vote, and neither forms a cluster nor finishes changes.
var OnlyLooks any

// Office is a redlock.LockOption: the lock is held for as long as its program runs, and others wait
// for as long. Neither counts among what may be stuck (redlock.Stats.OldestHold, OldestWait).
var Office any

// Door leads into one Locker. Its functions may be called from any goroutine. Their errors are
// those of a round (a *redlock.QuorumError), and redlock.ErrClosed.
type Door struct {
	Clock   clock.Clock     // of the Locker
	Closing <-chan struct{} // closed when the Locker is

	KeyPrefix string        // of the names of locks
	Timeout   time.Duration // of a round for a lock with the Locker's TTL

	// Nodes returns the nodes, in the order of the Stats. The Locker closes those of its own when
	// their masters were removed.
	Nodes func() []*pipeline.Node

	// Inspect asks every node who holds a lock, and InspectPermits who has the permits of a
	// semaphore. If fewer than a quorum answered, they return what these said with the error.
	Inspect        func(ctx context.Context, name string) (look.Answers[look.Inspection], error)
	InspectPermits func(ctx context.Context, name string) (look.Answers[look.Permits], error)

	// Init, Members, Add, Remove and SetMaxTTL are those of package admin.
	Init      func(ctx context.Context, force bool) error
	Members   func(ctx context.Context) (look.Cluster, error)
	Add       func(ctx context.Context, endpoint string, tell look.Progress) error
	Remove    func(ctx context.Context, id string, tell look.Progress) error
	SetMaxTTL func(ctx context.Context, d time.Duration, tell look.Progress) error

	// Leases are locks that stay at the masters, and of which this process keeps nothing.
	Leases Leases

	// WriteTerm records a term of a name. It returns nil once a quorum of nodes has it. Writing a
	// term twice keeps it for longer.
	WriteTerm func(ctx context.Context, name string, term ledger.Entry) error

	// ReadTerms asks every node what it holds under the name, and for at most so many of the newest
	// terms above since. It fails if fewer than a quorum answered.
	ReadTerms func(ctx context.Context, name string, since int64, most int) (ledger.Page, error)

	// WriteLog adds an entry, and gives it a time and an ID. It returns nil once a quorum has it.
	WriteLog func(ctx context.Context, e journal.Entry) error

	// ReadLog returns the entries of all masters that answered, the oldest first, and an error if
	// too few did to have all of them. With a name, it returns those about it, and its history.
	ReadLog func(ctx context.Context, name string) ([]journal.Entry, error)

	// Note adds an entry to the history of a name, in the background, as redlock.WithHistory does.
	Note func(name string, e journal.Entry)

	// Force takes a lock away from its holder, with a reason for the log. If values are given, it
	// takes away none but these, of which masters have told, and returns [journal.ErrChanged] if a
	// quorum has others.
	Force func(ctx context.Context, name, why string, values []string) (journal.Taken, error)
}

// Leases are what a Locker does for locks that are reached by their value, from any process.
type Leases struct {
	// Life returns the TTL that nodes must be asked for, so that valid is left of it a node timeout
	// after the round began.
	Life func(valid time.Duration) time.Duration

	// Detach lets go of a *redlock.Lock without a release, and reports whether it was held until
	// then. It stays at the nodes for its TTL: it is neither renewed here, nor released by Close.
	// Its Unlock still releases it.
	Detach func(lock any) bool

	// Extend gives a lock at least this TTL at the nodes that have the value, and returns what is
	// left of the validity. Nodes without the key do not get it back.
	Extend func(ctx context.Context, name, value string, ttl time.Duration) (left time.Duration, err error)

	// Release releases a lock where nodes have the value. Those at the indexes are told also if
	// they are away for the moment.
	Release func(ctx context.Context, name, value string, at []int) error
}
