package clock

import (
	"context"
	"time"
)

// After returns a channel that closes once d has passed on clk, and the timer that closes it.
// A caller that stops waiting earlier stops the timer; the channel then stays open.
func After(clk Clock, d time.Duration) (<-chan struct{}, *Timer) {
	over := make(chan struct{})
	return over, clk.AfterFunc(d, func() { close(over) })
}

// Sleep waits until d has passed on clk. It reports false if ctx ended first.
func Sleep(ctx context.Context, clk Clock, d time.Duration) bool {
	over, timer := After(clk, d)
	defer timer.Stop()
	select {
	case <-over:
		return true
	case <-ctx.Done():
		return false
	}
}
