package clock

import (
	"context"
	"time"
)

// Sleep waits for d by a clock, and reports false where ctx ended first.
func Sleep(ctx context.Context, clk Clock, d time.Duration) bool {
	over := make(chan struct{})
	timer := clk.AfterFunc(d, func() { close(over) })
	defer timer.Stop()
	select {
	case <-over:
		return true
	case <-ctx.Done():
		return false
	}
}
