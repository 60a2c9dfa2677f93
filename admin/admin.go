// Package admin is for those who operate Redis masters with the locks of package redlock: it tells
// who holds what, takes locks away, and changes which masters vote.
//
//	operator, err := admin.New([]string{"redis://a:6379", "redis://b:6379", "redis://c:6379"})
//	if err != nil {
//		return err
//	}
//	defer operator.Close()
//	status, err := operator.Inspect(ctx, "orders/42")
//
// The command redlock does the same from a shell: docs/operations.md says when.
package admin

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redquorum/redquorum/internal/door"
	"github.com/redquorum/redquorum/internal/journal"
	"github.com/redquorum/redquorum/redlock"
)

// Operator asks and changes masters. Its methods may be called from any goroutine. Their errors are
// those of package redlock: [redlock.ErrInvalid], [redlock.ErrClosed], [redlock.ErrNoQuorum] in a
// [*redlock.QuorumError], and that of a ctx that ended.
type Operator struct {
	locker *redlock.Locker
	own    bool // New made the Locker
	door   door.Door
	reason string // of what is taken away, for the log
}

// New returns an operator with connections of its own, as [redlock.New] does. It acquires nothing,
// and lets no new master vote before [Operator.Init] or a first lock of somebody else does.
func New(endpoints []string, opts ...redlock.Option) (*Operator, error) {
	strict := redlock.WithQuarantine(redlock.QuarantineStrict)
	locker, err := redlock.New(endpoints, slices.Concat(opts, []redlock.Option{strict})...)
	if err != nil {
		return nil, err
	}
	o := Of(locker)
	o.own = true
	return o, nil
}

// Of returns the operator of a Locker: it asks the same masters, by the same connections.
func Of(locker *redlock.Locker) *Operator {
	return &Operator{locker: locker, door: door.Of(locker)}
}

// OnlyLooks returns an option for [New] and [redlock.New]: by itself, nothing changes at the
// masters. No master is let vote, no cluster is formed, and no change finished that others began.
// Calls that change something still do.
func OnlyLooks() redlock.Option { return door.OnlyLooks.(redlock.Option) }

// Stats returns those of the Locker.
func (o *Operator) Stats() redlock.Stats { return o.locker.Stats() }

// Close ends the calls under way and closes the connections that [New] opened. The Locker of [Of]
// stays open, and so does its operator.
func (o *Operator) Close() error {
	if !o.own {
		return nil
	}
	return o.locker.Close()
}

// Init is for an operator who knows that no lock is held that a master may have forgotten. If no
// master votes yet, those that no client knew before vote at once instead of [redlock.WithMaxTTL]
// later. With force, all masters in quarantine do; and if no quorum of their cluster is left, those
// of the list that are there become a new one. If a lock is held after all, it may end up with two
// holders. Init changes nothing on masters that already vote.
//
// It returns nil once all nodes vote. Otherwise the error is a [*redlock.QuorumError] with
// [redlock.ErrNoQuorum] that says why each other node does not vote; the nodes that can vote do.
func (o *Operator) Init(ctx context.Context, force bool) error { return o.door.Init(ctx, force) }

// Because returns the operator with a reason for which it takes locks away. The log shows it to
// those who wonder ([Operator.Log]):
//
//	err := operator.Because("host7 is gone").ForceUnlock(ctx, "orders/42", status.Value)
func (o *Operator) Because(reason string) *Operator {
	with := *o
	with.reason = reason
	return &with
}

// ForceUnlock deletes a lock on every node, or hands it to the longest waiter. It is for an
// operator who knows that the holder is gone. A holder that is not gone learns of it at its next
// round, or with [redlock.WithoutRenewal] at the end of its validity, and believes until then that
// it holds the lock. If that round has no quorum in time, the next one decides; none of them wins
// the lock back. ForceUnlock returns nil when a quorum of nodes has deleted the lock, handed it
// over or held nothing. Nodes that are away keep it until its TTL ends.
//
// Values that were seen ([Status.Value]) are the only ones that it takes away: if the lock has
// another holder by now, the error is [ErrChanged], as the masters compare. Without values it takes
// the lock away from whoever holds it.
//
// If readers hold the lock, it ends for all of them. The name of a semaphore is not that of its
// permits, which have one each ([redlock.Lock.Name]).
//
// The log of the nodes gets an entry of it ([Operator.Log]), with the reason of
// [Operator.Because]. If too few of them take the entry, the lock is taken away all the same, and
// the error is nil.
func (o *Operator) ForceUnlock(ctx context.Context, name string, seen ...string) error {
	_, err := o.Force(ctx, name, seen...)
	return err
}

// Taken is what [Operator.Force] took away.
type Taken struct {
	Value    string        // that most masters held; empty if none held anything
	Left     time.Duration // how long the holder may go on without noticing
	Unlogged error         // why too few masters have an entry of it; nil if enough have
}

// Force is [Operator.ForceUnlock], and tells what it took away.
func (o *Operator) Force(ctx context.Context, name string, seen ...string) (Taken, error) {
	taken, err := o.door.Force(ctx, name, o.reason, seen)
	return Taken(taken), err
}

// Entry is a line of the log that the masters keep: locks that were taken away or lost, and changes
// of the members. `redlock help log` has the kinds.
type Entry struct {
	Time   time.Time // by the clock of the process that wrote it
	ID     string    // the same at each master
	Kind   string
	Key    string // of the lock: prefix and name; empty if it is about no lock
	Holder string // the owner of the lock; of a miss, whoever had it instead, if that is known
	By     string // the process that wrote it; in a history, the owner that it gives its locks
	Why    string

	// Of a history; each may be missing.
	Began  time.Time // when the lock was acquired; of a miss, when it was first asked for
	Since  time.Time // of a miss: when the holder asked for the lock, by its clock
	Status *int      // the exit status of a command
	Times  int       // how many misses this tells of; 0 for one
}

// Kinds of entries in the history of a name.
const (
	KindBegan    = journal.Began    // it has the lock; when it ends, another entry with this ID takes its place
	KindRan      = journal.Ran      // it had the lock and gave it back
	KindCut      = journal.Cut      // and lost it at the end of its maximum hold
	KindLost     = journal.Lost     // and lost it
	KindForced   = journal.Forced   // an operator took it away
	KindRefused  = journal.Refused  // it was not had: somebody else had it
	KindNoQuorum = journal.NoQuorum // too few masters answered
	KindMissed   = journal.Missed   // anything else, such as a wait that was given up
)

// Log returns the log of all masters that answered, the oldest entry first, and an error if too few
// did to have all of it. Each master keeps 256 entries, for 90 days.
func (o *Operator) Log(ctx context.Context) ([]Entry, error) {
	told, err := o.door.ReadLog(ctx, "")
	return entriesOf(told), err
}

// History returns what the masters that answered have noted of a lock, a semaphore or an election,
// the oldest first, and an error if too few answered to have all of it: the runs and refusals of
// those who note them ([redlock.WithHistory], `redlock run` and `redlock elect`), and what the log
// has of it. A run is one entry, at the place of its beginning.
func (o *Operator) History(ctx context.Context, name string) ([]Entry, error) {
	if name == "" {
		return nil, fmt.Errorf("%w: the name is empty", redlock.ErrInvalid)
	}
	told, err := o.door.ReadLog(ctx, name)
	return entriesOf(told), err
}

func entriesOf(told []journal.Entry) []Entry {
	entries := make([]Entry, len(told))
	for i, e := range told {
		entries[i] = Entry{
			Time: time.UnixMilli(e.Millis), ID: e.ID, Kind: e.Kind, Key: e.Key, Holder: e.Holder, By: e.By, Why: e.Why,
			Status: e.Status, Times: e.Times, Began: instant(e.BeganMillis), Since: instant(e.SinceMillis),
		}
	}
	return entries
}

func instant(millis int64) time.Time {
	if millis == 0 {
		return time.Time{}
	}
	return time.UnixMilli(millis)
}
