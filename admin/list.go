package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redquorum/redquorum/redlock"
)

// Bounds of a list, unless a [Query] has others.
const (
	mostKeys  = 100_000
	mostLocks = 20_000
)

// Query says which locks [Operator.Scan] looks for.
type Query struct {
	Pattern string        // of names, behind the key prefix, as Redis has them; empty for all
	Keys    int           // about how many keys each master looks at, whatever they are; 0: 100,000
	Locks   int           // how many names are looked for at each master; 0: 20,000
	Bound   time.Duration // what is known by then is told; 0: no bound
}

// Scanned is what the masters told about all locks.
type Scanned struct {
	Answers []Answers     // about each name that was found, in the order of the names
	Masters []Scan        // how each was looked through, in the order of the Stats
	Stats   redlock.Stats // after that; there may be more nodes by then
}

// List returns the locks that any master holds under names that match a pattern of Redis, such as
// "orders/*", in the order of their names: those of the Locker's key prefix, and without it. It
// changes nothing. A permit of a semaphore is a lock, and so is an election that somebody leads.
//
// The error says why locks may be missing: of masters that could not be looked through, or that are
// much slower than the others, which has no effect on locks that a quorum holds as long as a
// majority was; or that there are more than about 100,000 keys or 20,000 locks at a master. What is
// known is returned with it. Masters that are slower than a quorum hold List up by some seconds in
// all, however many locks there are; what they did not tell in time has an Err in the
// [NodeStatus].
func (o *Operator) List(ctx context.Context, pattern string) ([]Status, error) {
	scanned, err := o.Scan(ctx, Query{Pattern: pattern})
	var errs []error
	for i := range scanned.Masters {
		switch m := &scanned.Masters[i]; {
		case HasLeft(&scanned.Stats.Nodes[i]):
		case m.Err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", m.Endpoint, m.Err))
		case m.Bounded:
			errs = append(errs, fmt.Errorf("%s: %w", m.Endpoint, errMore))
		}
	}
	var locks []Status
	for i := range scanned.Answers {
		a := &scanned.Answers[i]
		for _, s := range append([]Status{a.Status}, a.Semaphore.Slots...) {
			if slices.ContainsFunc(s.Nodes, func(n NodeStatus) bool { return n.Value != "" || n.TTL != 0 }) {
				locks = append(locks, s)
			}
		}
	}
	slices.SortFunc(locks, func(a, b Status) int { return cmp.Compare(a.Name, b.Name) })
	return locks, errors.Join(append(errs, err)...)
}

var (
	errMore = errors.New("it may have more locks than could be looked at")
	errSlow = errors.New("it is much slower than the others")
)

// Scan looks for locks at all masters, and asks about what it finds: what [Operator.List] does, for
// those who want to know what is missing. A semaphore of which it finds a permit stands for all of
// its permits, and an election is there whether somebody leads or not. The error is the first one
// of a question about a name; what is known is returned all the same.
func (o *Operator) Scan(ctx context.Context, q Query) (Scanned, error) {
	if q.Bound > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, q.Bound, errLate)
		defer cancel()
	}
	s := Scanned{Masters: o.scanAll(ctx, &q)}
	var locks, elections, bases []string
	for i := range s.Masters {
		locks, elections = append(locks, s.Masters[i].Names...), append(elections, s.Masters[i].elections...)
	}
	for _, name := range locks {
		if base, slot := permitOf(name); slot > 0 {
			bases = append(bases, base)
		}
	}
	slices.Sort(bases)
	semaphores := o.semaphores(ctx, slices.Compact(bases))
	for i, name := range locks {
		if base, slot := permitOf(name); slot > 0 && slot <= semaphores[base].Permits {
			locks[i] = base
		}
	}
	var err error
	s.Answers, err = o.askAll(ctx, append(locks, elections...), semaphores)
	s.Stats = o.locker.Stats()
	return s, err
}

// scanAll looks for the locks of each master. When so many are through that every lock that is held
// is known, the others have as long again, and slowPause.
func (o *Operator) scanAll(ctx context.Context, q *Query) []Scan {
	clk := o.door.Clock
	began, masters, stats := clk.Now(), o.masters(), o.locker.Stats()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limit := Query{Pattern: cmp.Or(q.Pattern, "*"), Keys: cmp.Or(q.Keys, mostKeys), Locks: cmp.Or(q.Locks, mostLocks)}
	scans := make([]Scan, len(masters))
	var all sync.WaitGroup
	var full atomic.Int64
	for i, m := range masters {
		all.Go(func() {
			scans[i] = scan(ctx, m, o.door.KeyPrefix, &limit)
			if scans[i].Err != nil || i >= len(stats.Nodes) || stats.Nodes[i].Barred != nil {
				return
			}
			if full.Add(1) == int64(stats.Members-stats.Quorum+1) {
				clk.AfterFunc(clk.Now().Sub(began)+slowPause, func() { cancel(errSlow) }) // nothing, once all are through
			}
		})
	}
	all.Wait()
	return scans
}

var permitName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?s)^(.+)#([1-9][0-9]{0,3})$`) })

// permitOf returns the semaphore that a name may be a permit of, and which; 0 if it is none.
func permitOf(name string) (base string, slot int) {
	m := permitName().FindStringSubmatch(name)
	if m == nil {
		return "", 0
	}
	slot, _ = strconv.Atoi(m[2]) //nolint:errcheck // up to four digits
	return m[1], slot
}
