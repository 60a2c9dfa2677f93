package main

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/cmd/redlock/internal/ask"
	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/masters"
	"github.com/redquorum/redquorum/cmd/redlock/internal/survey"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

const (
	// mostAtOnce is how many locks are asked for at the same time. It hides the round trip, and
	// keeps masters that also work for others free.
	mostAtOnce = 64
)

// lister lists the locks of masters.
type lister struct {
	nodes   []*pool.Node
	locker  *redlock.Locker
	prefix  string
	pattern string // of names
	owner   string // a pattern; empty for any owner
	bounds  survey.Bounds
	timeout time.Duration // for one answer
}

// openLister connects to the masters, and waits until it is known whose votes count.
func openLister(
	cmd *cobra.Command, flags *masters.Flags, pattern string, bounds survey.Bounds, timeout time.Duration,
) (*lister, error) {
	nodes, err := flags.Dial(cmd, pool.WithClientName("redlock-"+cmd.Name()),
		pool.WithDialTimeout(timeout), pool.WithStallTimeout(timeout))
	if err != nil {
		return nil, err
	}
	options := append(flags.Options(), askOptions(flags, timeout)...)
	followed, err := masters.Follow(cmd.Context(), clock.System(), nodes, options...)
	if err != nil {
		masters.CloseAll(followed.Nodes)
		return nil, cli.InvalidUsage(err)
	}
	return &lister{nodes: followed.Nodes, locker: followed.Locker, prefix: flags.KeyPrefix, pattern: pattern, bounds: bounds, timeout: timeout}, nil
}

func (l *lister) close() {
	_ = l.locker.Close() //nolint:errcheck // it holds no locks
	masters.CloseAll(l.nodes)
}

func (l *lister) master(node int) ask.Master {
	return ask.Master{Node: (*pipeline.Node)(l.nodes[node]), Clock: clock.System(), Patience: l.timeout}
}

// list returns the locks that the masters hold. An error is the first one of a question about a
// lock; the list is what is known all the same.
func (l *lister) list(ctx context.Context) (listing, error) {
	scans := make([]survey.Scan, len(l.nodes))
	var all sync.WaitGroup
	for i := range l.nodes {
		all.Go(func() { scans[i] = survey.Locks(ctx, l.master(i), l.prefix, l.pattern, l.bounds) })
	}
	all.Wait()
	names := namesOf(scans)
	found, err := l.inspectAll(ctx, names)
	if l.owner != "" {
		matches := ownerMatcher(l.owner)
		found = slices.DeleteFunc(found, func(i inspection) bool { return !i.isOf(matches) })
	}
	stats := l.locker.Stats()
	return newListing(scans, &stats, found), err
}

// namesOf returns the names that any master has, in their order.
func namesOf(scans []survey.Scan) (names []string) {
	for _, s := range scans {
		names = append(names, s.Names...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// inspectAll inspects names. The permits of a semaphore are one entry, that of its name.
func (l *lister) inspectAll(ctx context.Context, names []string) (found []inspection, first error) {
	semaphores := l.semaphores(ctx, names)
	asked := make([]string, 0, len(names))
	for _, name := range names {
		if base, slot := permitOf(name); slot > 0 && slot <= semaphores[base].Permits {
			name = base
		}
		asked = append(asked, name)
	}
	slices.Sort(asked)
	asked = slices.Compact(asked)
	told, errs := make([]answers, len(asked)), make([]error, len(asked))
	members := l.locker.Stats().Members
	each(len(asked), func(i int) {
		a := &told[i]
		a.status, errs[i] = l.locker.Inspect(ctx, asked[i])
		a.permits, a.members, a.at = semaphores[asked[i]], members, clock.System().Wall()
		// A term is a fencing token.
		if slices.ContainsFunc(a.status.Nodes, func(n redlock.NodeStatus) bool { return n.Fence != 0 }) {
			a.terms = termsOf(ctx, l.locker, asked[i])
		}
	})
	for i := range told {
		if errors.Is(errs[i], redlock.ErrInvalid) {
			continue // no lock can have such a name: it is too long, or reserved
		}
		if first == nil {
			first = errs[i]
		}
		if in := told[i].inspection(); in.isThere() {
			found = append(found, in)
		}
	}
	return found, first
}

// semaphores asks about the semaphores that the names may be permits of.
func (l *lister) semaphores(ctx context.Context, names []string) map[string]redlock.SemaphoreStatus {
	var bases []string
	for _, name := range names {
		if base, slot := permitOf(name); slot > 0 {
			bases = append(bases, base)
		}
	}
	slices.Sort(bases)
	bases = slices.Compact(bases)
	told := make([]redlock.SemaphoreStatus, len(bases))
	each(len(bases), func(i int) { told[i] = permitsOf(ctx, l.locker, bases[i]) })
	known := map[string]redlock.SemaphoreStatus{}
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

// isThere reports whether a master that answered has something under the name.
func (i *inspection) isThere() bool {
	for _, n := range i.Nodes {
		if n.Value != "" || n.TTLMillis != 0 {
			return true
		}
	}
	return slices.ContainsFunc(i.Permits, func(p holding) bool { return p.Verdict != "free" })
}
