package redlock

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/redlock/internal/wait"
)

func TestStateMovesAlongItsEdgesOnly(t *testing.T) {
	states := []state{held, released, lost}
	allowed := map[[2]state]bool{{held, released}: true, {held, lost}: true}
	for _, from := range states {
		for _, to := range states {
			t.Run(fmt.Sprintf("%v to %v", from, to), func(t *testing.T) {
				s := from
				if allowed[[2]state{from, to}] {
					s.move(to)
					assert.Equal(t, to, s)
					return
				}
				assert.Panics(t, func() { s.move(to) })
				assert.Equal(t, from, s)
			})
		}
	}
}

func TestRenewalsFillScriptsButDoNotComeAllAtOnce(t *testing.T) {
	const ttl, after = 30 * time.Second, 10 * time.Second
	for _, locks := range []int{1, 1000, 100_000} {
		together := map[clock.Instant]int{}
		for i := range locks { // acquired one after the other until the first is renewed
			start := clock.Instant(time.Hour).Add(after / time.Duration(locks) * time.Duration(i))
			at := renewalAt(start, after, ttl, locks)
			assert.LessOrEqual(t, at, start.Add(after))
			assert.GreaterOrEqual(t, at, start.Add(after-ttl/quantumShare))
			together[at]++
		}
		assert.LessOrEqual(t, slices.Max(slices.Collect(maps.Values(together))), quantumKeys+1, "of %d", locks)
		assert.LessOrEqual(t, len(together), 1+locks/32, "instants for %d", locks)
	}
}

// Trace begins and ends an operation that does nothing, as every call does.
func (l *Locker) Trace(ctx context.Context) (err error) {
	_, span := l.trace(ctx, OperationAcquire, "a")
	defer func() { span.end(err) }()
	return ctx.Err()
}

// LockOvertaken is Lock of a waiter that was overtaken, so that it takes a place at every node.
func LockOvertaken(ctx context.Context, l *Locker, name string) (*Lock, error) {
	return lockOf(l.waiters.Acquire(ctx, overtaken{&call{lockConfig: l.config.lock, locker: l, kind: mutex{}, name: [1]string{name}}}))
}

type overtaken struct{ *call }

func (o overtaken) Wanted() wait.Wanted {
	w := o.call.Wanted()
	w.Overtaken = wait.MaxOvertaken
	return w
}
