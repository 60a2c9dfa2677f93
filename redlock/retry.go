package redlock

import (
	"context"
	"math/rand/v2"
	"time"
)

// pause is the time between two attempts: doubled up to a bound, and jittered, so that contenders whose votes split do not
// meet again.
type pause struct {
	shortest, longest time.Duration
	now               time.Duration
}

func (p *pause) next() time.Duration {
	d := max(p.now, p.shortest)
	p.now = min(2*d, p.longest)
	return d/2 + rand.N(d/2+1)
}

// sleep waits for d, and reports false where ctx or the Locker ended first.
func (l *Locker) sleep(ctx context.Context, d time.Duration) bool {
	over := make(chan struct{})
	timer := l.clock.AfterFunc(d, func() { close(over) })
	defer timer.Stop()
	select {
	case <-over:
		return true
	case <-ctx.Done():
	case <-l.closing:
	}
	return false
}
