package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/redquorum/redquorum/internal/ask"
	"github.com/redquorum/redquorum/internal/scan"
)

// Bounds of a list.
const (
	mostKeys  = 100_000 // that each master looks at, whatever they are
	mostLocks = 20_000  // that are looked for at each master

	// mostAtOnce is how many locks are asked about at the same time. It hides the round trip, and
	// keeps masters that also work for others free.
	mostAtOnce = 64
)

// List returns the locks that any master holds under names that match a pattern of Redis, such as
// "orders/*", in the order of their names: those of the Locker's key prefix, and without it. It
// changes nothing. A permit of a semaphore is a lock, and so is an election that somebody leads.
//
// The error says why locks may be missing: of masters that could not be looked through, which has
// no effect on locks that a quorum holds as long as a majority was; or that there are more than
// about 100,000 keys or 20,000 locks at a master. What is known is returned with it.
func (o *Operator) List(ctx context.Context, pattern string) ([]Status, error) {
	nodes := o.door.Nodes()
	found := make([]scan.Found, len(nodes))
	var all sync.WaitGroup
	for i, node := range nodes {
		m := ask.Master{Node: node, Clock: o.door.Clock, Patience: ask.Patience}
		all.Go(func() {
			found[i] = scan.Locks(ctx, m, o.door.KeyPrefix, pattern, scan.Bounds{Keys: mostKeys, Locks: mostLocks})
		})
	}
	all.Wait()
	var names []string
	var errs []error
	for i, f := range found {
		names = append(append(names, f.Names...), f.Terms...)
		switch {
		case f.Err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", nodes[i].Endpoint(), f.Err))
		case f.Bounded:
			errs = append(errs, fmt.Errorf("%s: %w", nodes[i].Endpoint(), errMore))
		}
	}
	slices.Sort(names)
	told, err := o.inspectAll(ctx, slices.Compact(names))
	there := slices.DeleteFunc(told, func(s Status) bool {
		return !slices.ContainsFunc(s.Nodes, func(n NodeStatus) bool { return n.Value != "" || n.TTL != 0 })
	})
	return there, errors.Join(append(errs, err)...)
}

var errMore = errors.New("it may have more locks than could be looked at")

// inspectAll asks about names, and returns what is known, with the first error.
func (o *Operator) inspectAll(ctx context.Context, names []string) ([]Status, error) {
	told, errs := make([]Status, len(names)), make([]error, len(names))
	var all sync.WaitGroup
	free := make(chan struct{}, mostAtOnce)
	for i, name := range names {
		free <- struct{}{}
		all.Go(func() {
			told[i], errs[i] = o.Inspect(ctx, name)
			<-free
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return told, err
		}
	}
	return told, nil
}
