package survey

import (
	"cmp"
	"context"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/ask"
	"github.com/redquorum/redquorum/internal/door"
	"github.com/redquorum/redquorum/internal/look"
	"github.com/redquorum/redquorum/internal/scan"
	"github.com/redquorum/redquorum/redlock"
)

// mostAtOnce is how many locks are asked for at the same time. It hides the round trip, and keeps
// masters that also work for others free.
const mostAtOnce = 64

// AskTTL is that of a Locker that acquires nothing.
const AskTTL = 10 * time.Second

// AskOptions are those of a Locker that acquires nothing, and changes nothing at the masters on its
// own.
func AskOptions(maxTTL, timeout time.Duration) []redlock.Option {
	return []redlock.Option{
		redlock.WithTTL(min(AskTTL, maxTTL)), redlock.WithNodeTimeout(timeout), door.OnlyLooks.(redlock.Option),
	}
}

// Lister asks masters about their locks. Its methods may be called from any goroutine.
type Lister struct {
	Locker    *redlock.Locker // follows the members, as that of any program; made with [AskOptions]
	KeyPrefix string          // of the Locker
	Timeout   time.Duration   // for one answer
	Pattern   string          // of names, as Redis has them
	Owner     string          // a pattern, see [Lister.List]; empty for any owner
	Bounds    scan.Bounds     // of one master's scan
	Bound     time.Duration   // of a list: what is known by then is told; 0 for none
}

const (
	// listPause is how long a list waits for the slowest masters in all, beside what the others
	// need.
	listPause = 4 * time.Second

	// leastLag is how long each of its questions waits for them at least, behind a quorum.
	leastLag = 20 * time.Millisecond

	// mostAnswered is how much the answers of one list may take, in bytes.
	mostAnswered = 64 << 20
)

// Why locks of a list are not asked about.
var (
	errLate  = errors.New("the time for a list was over before it was asked about")
	errLarge = errors.New("the answers about other locks are too large to ask about more at once")
)

// masters returns those that are asked, in the order of the Stats of the Locker; later there may be
// more.
func (l *Lister) masters() (all []ask.Master) {
	for _, node := range door.Of(l.Locker).Nodes() {
		all = append(all, ask.Master{Node: node, Clock: clock.System(), Patience: l.Timeout})
	}
	return all
}

// Examine asks each master for its signs of life, in the order of the Stats of the Locker; later
// these may have more.
func (l *Lister) Examine(ctx context.Context) []Vitals {
	masters := l.masters()
	vitals := make([]Vitals, len(masters))
	var asked sync.WaitGroup
	for i, m := range masters {
		asked.Go(func() { vitals[i] = Examine(ctx, m) })
	}
	asked.Wait()
	return vitals
}

// List returns the locks that the masters hold. An error is the first one of a question about a
// lock; the list is what is known all the same. A master that is slow holds it up by some seconds
// in all, whatever there is to list.
func (l *Lister) List(ctx context.Context) (Listing, error) {
	if l.Bound > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, l.Bound, errLate)
		defer cancel()
	}
	scans := l.scan(ctx)
	locks, terms := namesIn(scans)
	semaphores := l.semaphores(ctx, locks)
	for i, name := range locks {
		if base, slot := permitOf(name); slot > 0 && slot <= semaphores[base].Permits {
			locks[i] = base
		}
	}
	told, err := l.inspect(ctx, append(locks, terms...), semaphores)
	matches := ownerMatcher(cmp.Or(l.Owner, "*"))
	var found, idle []Inspection
	for i := range told {
		switch in := &told[i]; {
		case in.IsThere():
			if l.Owner == "" || in.isOf(matches) {
				found = append(found, *in)
			}
		case in.NewestTerm > 0:
			idle = append(idle, *in)
		}
	}
	stats := l.Locker.Stats()
	list := newListing(scans, &stats, found)
	list.Idle = idle
	return list, err
}

// scan looks for the locks of each master. When so many are through that every lock that is held is
// known, the others have as long again, and listPause.
func (l *Lister) scan(ctx context.Context) []scan.Found {
	began, masters, stats := time.Now(), l.masters(), l.Locker.Stats() //nolint:forbidigo // no lock depends on it
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	scans := make([]scan.Found, len(masters))
	var all sync.WaitGroup
	var full atomic.Int64
	for i, m := range masters {
		all.Go(func() {
			scans[i] = scan.Locks(ctx, m, l.KeyPrefix, l.Pattern, l.Bounds)
			if scans[i].Err != nil || i >= len(stats.Nodes) || stats.Nodes[i].Barred != nil {
				return
			}
			if full.Add(1) == int64(stats.Members-stats.Quorum()+1) {
				time.AfterFunc(time.Since(began)+listPause, func() { cancel(errSlow) }) //nolint:forbidigo // see above
			}
		})
	}
	all.Wait()
	return scans
}

var errSlow = errors.New("it is much slower than the others")

// namesIn returns the names that any master has: of locks, and of elections.
func namesIn(scans []scan.Found) (locks, terms []string) {
	for _, s := range scans {
		locks, terms = append(locks, s.Names...), append(terms, s.Terms...)
	}
	slices.Sort(locks)
	return slices.Compact(locks), terms
}

// Inspect asks about names, at once. Those that no lock can have are left out. It asks about a
// semaphore only if the name may be that of one. The error is the first one.
func (l *Lister) Inspect(ctx context.Context, names []string, maySemaphore func(name string) bool) ([]Inspection, error) {
	var bases []string
	for _, name := range names {
		if maySemaphore(name) {
			bases = append(bases, name)
		}
	}
	return l.inspect(ctx, slices.Clone(names), l.permits(ctx, bases))
}

// inspect asks about names, each of them once.
func (l *Lister) inspect(ctx context.Context, names []string, semaphores map[string]admin.SemaphoreStatus) (found []Inspection, first error) {
	slices.Sort(names)
	names = slices.Compact(names)
	told, errs := make([]Answers, len(names)), make([]error, len(names))
	stats := l.Locker.Stats()
	ctx, cancel := context.WithCancelCause(l.within(ctx, len(names)))
	defer cancel(nil)
	var size atomic.Int64
	each(len(names), func(i int) {
		a := &told[i]
		if ctx.Err() != nil {
			*a = Answers{Status: admin.Status{Name: names[i], Quorum: stats.Quorum()}, stats: &stats, at: clock.System().Wall(), unasked: true}
			errs[i] = context.Cause(ctx)
			return
		}
		a.Status, errs[i] = admin.Of(l.Locker).Inspect(ctx, names[i])
		a.permits, a.stats, a.at = semaphores[names[i]], &stats, clock.System().Wall()
		if slices.ContainsFunc(a.Status.Nodes, func(n admin.NodeStatus) bool { return n.Terms != 0 }) {
			a.terms = termsOf(ctx, l.Locker, names[i])
		}
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
		found = append(found, told[i].Inspection())
	}
	return found, first
}

// within returns the context of so many questions, which are asked some at a time.
func (l *Lister) within(ctx context.Context, questions int) context.Context {
	return look.Within(ctx, max(listPause/time.Duration(questions/mostAtOnce+1), leastLag))
}

// semaphores asks about the semaphores that the names may be permits of.
func (l *Lister) semaphores(ctx context.Context, names []string) map[string]admin.SemaphoreStatus {
	var bases []string
	for _, name := range names {
		if base, slot := permitOf(name); slot > 0 {
			bases = append(bases, base)
		}
	}
	slices.Sort(bases)
	return l.permits(ctx, slices.Compact(bases))
}

// permits asks about semaphores, and returns those that there are.
func (l *Lister) permits(ctx context.Context, bases []string) map[string]admin.SemaphoreStatus {
	told := make([]admin.SemaphoreStatus, len(bases))
	ctx = l.within(ctx, len(bases))
	each(len(bases), func(i int) {
		if ctx.Err() == nil {
			told[i] = permitsOf(ctx, l.Locker, bases[i])
		}
	})
	known := map[string]admin.SemaphoreStatus{}
	for i, base := range bases {
		if told[i].Permits > 0 {
			known[base] = told[i]
		}
	}
	return known
}

var permitName = regexp.MustCompile(`(?s)^(.+)#([1-9][0-9]{0,3})$`)

// permitOf returns the semaphore that a name may be a permit of, and which; 0 if it is none.
func permitOf(name string) (base string, slot int) {
	m := permitName.FindStringSubmatch(name)
	if m == nil {
		return "", 0
	}
	slot, _ = strconv.Atoi(m[2]) //nolint:errcheck // up to four digits
	return m[1], slot
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
