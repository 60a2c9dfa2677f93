package load

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/redlock"
)

// Variant is a Locker with options that may cost something.
type Variant struct {
	Name    string // without spaces
	Options []redlock.Option
}

// Costs is the body of a benchmark of what options cost: locks and their unlocks by 64 goroutines
// on five local servers, without any and with each variant.
//
//	go test -run '^$' -bench History -count 10 ./bench | tee history.txt
//	go run golang.org/x/perf/cmd/benchstat@latest -col /options history.txt
//
// The log says how many calls of hooks were dropped, which cost less than they should.
func Costs(b *testing.B, variants ...Variant) {
	b.Helper()
	urls := cluster.Start(b, 5).URLs()
	names := make([]string, 10_000)
	for i := range names {
		names[i] = fmt.Sprintf("cost/%05d", i)
	}
	for _, v := range append([]Variant{{Name: "none"}}, variants...) {
		locker := cluster.NewLocker(b, urls, append(v.Options, redlock.WithNodeTimeout(10*time.Second))...)
		cluster.RequireUp(b, locker, func(node redlock.NodeStats) bool { return node.Barred == nil })
		b.Run("options="+v.Name, func(b *testing.B) {
			load := Load{Goroutines: 64, Operations: b.N, Timed: b, Do: func(ctx context.Context, i, _ int) error {
				lock, err := locker.TryLock(ctx, names[i%len(names)])
				if err != nil {
					return err
				}
				return lock.Unlock(ctx)
			}}
			s, err := load.Measure(b.Context())
			require.NoError(b, err)
			s.Report(b)
			if stats := locker.Stats(); stats.HooksDropped > 0 {
				b.Logf("%d calls of hooks were dropped for %d locks", stats.HooksDropped, stats.Acquired)
			}
		})
	}
}
