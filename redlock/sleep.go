package redlock

import (
	"context"
	"time"
)

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
