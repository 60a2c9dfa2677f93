package admin

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redquorum/redquorum/internal/look"
	"github.com/redquorum/redquorum/internal/owner"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// Answers are what the masters told about a name, whatever it is that of.
type Answers struct {
	At        time.Time       // when the masters had answered
	Status    Status          // of the lock
	Semaphore SemaphoreStatus // Permits is 0 if the name is not that of a semaphore, or none was asked about
	Terms     []Term          // of the election, the newest on record first; none if there is no election
	Stats     *redlock.Stats  // of the masters, at about that time; nil if they are not known

	// Unasked says that a bound of [Operator.Scan] was met before the masters could be asked: the
	// name was found, and that is all.
	Unasked bool
}

// Term is a term of an election, on record.
type Term struct {
	Number int64
	Value  string // of the leader's lock
	Owner  string // the owner in that value
	Since  Since  // since when, as that value tells
}

// recentTerms is how many terms are looked at. The holder's is among the newest.
const recentTerms = 8

// Why names are not asked about.
var (
	errLate  = errors.New("the time for a list was over before it was asked about")
	errLarge = errors.New("the answers about other locks are too large to ask about more at once")
)

const (
	// mostAtOnce is how many names are asked about at the same time. It hides the round trip, and
	// keeps masters that also work for others free.
	mostAtOnce = 64

	// mostAnswered is how much the answers about many names may take, in bytes.
	mostAnswered = 64 << 20

	// leastLag is how long each question about one of many names waits at least for the slowest
	// masters, once a quorum has answered; slowPause is how long all of them do together.
	leastLag  = 20 * time.Millisecond
	slowPause = 4 * time.Second
)

// Ask asks about a name as a lock, a semaphore and an election, once it is known which masters vote
// ([Operator.AwaitVotes]). Like [Operator.Inspect], it returns what is known along with an error.
func (o *Operator) Ask(ctx context.Context, name string) (a Answers, err error) {
	o.AwaitVotes(ctx)
	if a.Status, err = o.Inspect(ctx, name); err == nil {
		// If one of these fails, so does the question about the lock, which says why.
		var both sync.WaitGroup
		both.Go(func() { a.Semaphore = o.semaphore(ctx, name) })
		both.Go(func() { a.Terms = o.terms(ctx, name) })
		both.Wait()
	}
	a.At = o.door.Clock.Wall()
	stats := o.locker.Stats()
	a.Stats = &stats
	for i := range min(len(a.Status.Nodes), len(stats.Nodes)) {
		if n := &a.Status.Nodes[i]; errors.Is(n.Err, pool.ErrQuarantined) && stats.Nodes[i].Barred != nil {
			n.Err = stats.Nodes[i].Barred // it says why
		}
	}
	return a, err
}

// AskAll asks about names at once, and returns the answers in the order of the names, each once.
// Those that no lock can have are left out. It asks about a semaphore only where maySemaphore says
// that a name may be that of one; nil says so of all. The error is the first one; the answers are
// what is known all the same. Masters that are slower than a quorum hold it up by some seconds in
// all.
func (o *Operator) AskAll(ctx context.Context, names []string, maySemaphore func(name string) bool) ([]Answers, error) {
	var bases []string
	for _, name := range names {
		if maySemaphore == nil || maySemaphore(name) {
			bases = append(bases, name)
		}
	}
	return o.askAll(ctx, slices.Clone(names), o.semaphores(ctx, bases))
}

// askAll asks about names, each of them once.
func (o *Operator) askAll(ctx context.Context, names []string, semaphores map[string]SemaphoreStatus) (known []Answers, first error) {
	slices.Sort(names)
	names = slices.Compact(names)
	told, errs := make([]Answers, len(names)), make([]error, len(names))
	stats := o.locker.Stats()
	ctx, cancel := context.WithCancelCause(within(ctx, len(names)))
	defer cancel(nil)
	var size atomic.Int64
	each(len(names), func(i int) {
		a := &told[i]
		a.Stats = &stats
		if ctx.Err() != nil {
			a.Status, a.Unasked, errs[i] = Status{Name: names[i], Quorum: stats.Quorum}, true, context.Cause(ctx)
		} else {
			a.Status, errs[i] = o.Inspect(ctx, names[i])
			a.Semaphore = semaphores[names[i]]
			if slices.ContainsFunc(a.Status.Nodes, func(n NodeStatus) bool { return n.Terms != 0 }) {
				a.Terms = o.terms(ctx, names[i])
			}
		}
		a.At = o.door.Clock.Wall()
		if size.Add(int64(a.size())) > mostAnswered {
			cancel(errLarge)
		}
	})
	for i := range told {
		if errors.Is(errs[i], redlock.ErrInvalid) {
			continue // no lock can have such a name: it is too long, or reserved
		}
		if first == nil {
			first = errs[i]
		}
		known = append(known, told[i])
	}
	return known, first
}

// within returns the context of so many questions, which are asked some at a time.
func within(ctx context.Context, questions int) context.Context {
	return look.Within(ctx, max(slowPause/time.Duration(questions/mostAtOnce+1), leastLag))
}

// semaphores asks about semaphores, and returns those that there are.
func (o *Operator) semaphores(ctx context.Context, names []string) map[string]SemaphoreStatus {
	told := make([]SemaphoreStatus, len(names))
	ctx = within(ctx, len(names))
	each(len(names), func(i int) {
		if ctx.Err() == nil {
			told[i] = o.semaphore(ctx, names[i])
		}
	})
	known := map[string]SemaphoreStatus{}
	for i, name := range names {
		if told[i].Permits > 0 {
			known[name] = told[i]
		}
	}
	return known
}

// semaphore asks about the semaphore of a name.
func (o *Operator) semaphore(ctx context.Context, name string) SemaphoreStatus {
	status, _ := o.InspectSemaphore(ctx, name) //nolint:errcheck // the question about the lock fails as well
	return status
}

// terms asks about the election of a name.
func (o *Operator) terms(ctx context.Context, name string) (terms []Term) {
	page, _ := o.door.ReadTerms(ctx, name, 0, recentTerms) //nolint:errcheck // as above
	seen := map[string]bool{}
	for _, answer := range page.Answers {
		for _, entry := range answer.Entries {
			if !seen[entry.Value] {
				seen[entry.Value] = true
				name, since, waited := owner.Of(entry.Value)
				terms = append(terms, Term{entry.Term, entry.Value, name, Since{since, waited}})
			}
		}
	}
	slices.SortFunc(terms, func(a, b Term) int { return cmp.Or(cmp.Compare(b.Number, a.Number), cmp.Compare(a.Value, b.Value)) })
	return terms
}

// size returns about how many bytes the answers take.
func (a *Answers) size() (n int) {
	const each = 200 // beside texts
	count := func(nodes []NodeStatus) {
		for i := range nodes {
			n += each + len(nodes[i].Value)
			for _, reader := range nodes[i].Readers {
				n += each + len(reader.Value)
			}
			for _, waiter := range nodes[i].Waiters {
				n += len(waiter)
			}
		}
	}
	count(a.Status.Nodes)
	for i := range a.Semaphore.Slots {
		count(a.Semaphore.Slots[i].Nodes)
	}
	return n
}

// each calls a function with 0 to n-1, some at the same time.
func each(n int, do func(int)) {
	var all sync.WaitGroup
	free := make(chan struct{}, mostAtOnce)
	for i := range n {
		free <- struct{}{}
		all.Go(func() {
			do(i)
			<-free
		})
	}
	all.Wait()
}
