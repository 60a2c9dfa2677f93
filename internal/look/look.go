// Package look is what masters tell those who look at them, and how long these wait for the
// slowest.
package look

import (
	"context"
	"time"
)

type lag struct{}

// Within returns a context for a question to all masters that need not wait for all: once a quorum
// has answered, the others have so long. It is for many questions, of which each would wait for the
// slowest master.
func Within(ctx context.Context, d time.Duration) context.Context {
	return context.WithValue(ctx, lag{}, d)
}

// Lag returns how long a question waits for masters that are slower than a quorum, and whether that
// is bounded.
func Lag(ctx context.Context) (d time.Duration, bounded bool) {
	d, bounded = ctx.Value(lag{}).(time.Duration)
	return d, bounded
}
