package driver_test

import (
	"context"
	"strings"
	"sync"
	"time"
)

// forgetsScripts has masters forget their scripts, but for those that release, just before some
// calls are given up. What these asked for is not done behind their releases.
func forgetsScripts(a *actor) {
	a.ready()
	asking, other := a.clients[0].current(), a.clients[1].current()
	for range 10 {
		known := a.acquireBy(other, a.long(a.mutex(a.fresh(), false)))
		for _, m := range a.masters {
			_, _ = m.do("SCRIPT", "FLUSH") //nolint:errcheck // it is up
		}
		if known != nil {
			a.unlock(known)
		}
		time.Sleep(5 * latency)
		var calling sync.WaitGroup
		ctx, cancel := context.WithCancel(a.base)
		for range 3 {
			q := a.fenced(a.long(a.mutex(a.fresh(), false)))
			calling.Go(func() { a.givesUpOn(ctx, asking, q) })
			time.Sleep(upTo(a.rng, latency/4))
		}
		time.Sleep(upTo(a.rng, latency/2))
		cancel()
		calling.Wait()
	}
	time.Sleep(time.Second)
	for i, m := range a.masters {
		for _, key := range m.keys() {
			a.promise("a failed call leaves nothing", !strings.HasPrefix(key, "once"), "master %d has %q, and all calls have ended", i, key)
		}
	}
}

// givesUpOn makes a call whose context ends meanwhile.
func (a *actor) givesUpOn(ctx context.Context, life *life, q *request) {
	lock, err := q.do(ctx, life.locker, q.asked.opts...)
	a.note("script", "%s %v: %v", q.call, q.names, err)
	if err == nil {
		life.got.Add(1)
		_ = lock.Unlock(a.base) //nolint:errcheck // the name is not used again
	}
}
