package cluster

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/redlock"
)

// Runs is when something ran that must not run twice at a time.
type Runs struct {
	mu    sync.Mutex // guards spans
	spans []span     // in the order of their ends
}

type span struct{ from, to time.Time }

// RequireOneAtATime starts programs that have a Locker each, on the same three masters, and call
// run with their locks held, again and again. It requires that runs exclude each other, that there
// are n of them or more, and n more after a master is killed.
func RequireOneAtATime(t *testing.T, programs, n int, start func(l *redlock.Locker, run func(ctx context.Context))) *Runs {
	t.Helper()
	c := Start(t, 3)
	r := &Runs{}
	for range programs {
		start(NewConnected(t, c.URLs()), r.run)
	}
	r.await(t, n)
	require.NoError(t, c.Masters[0].Kill())
	r.await(t, r.Len()+n)
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := 1; i < len(r.spans); i++ {
		assert.False(t, r.spans[i].from.Before(r.spans[i-1].to), "run %d began before run %d ended", i, i-1)
	}
	return r
}

// run takes some milliseconds. It is not counted if its context ended meanwhile: then the lock was
// lost, and others may have it.
func (r *Runs) run(ctx context.Context) {
	from := time.Now()
	time.Sleep(7 * time.Millisecond)
	to := time.Now()
	if ctx.Err() == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.spans = append(r.spans, span{from, to})
	}
}

// Len returns how many runs there were.
func (r *Runs) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.spans)
}

func (r *Runs) await(tb testing.TB, n int) {
	tb.Helper()
	Eventually(tb, time.Minute, func() string {
		if got := r.Len(); got < n {
			return fmt.Sprintf("%d runs, there were %d", n, got)
		}
		return ""
	})
}
