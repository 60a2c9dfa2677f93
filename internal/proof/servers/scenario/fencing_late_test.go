//go:build linux

package scenario_test

import (
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/redlock"
)

// A holder that was stopped beyond its TTL continues, and writes. The resource refuses the write
// once the next holder has read or written, and not before.
func TestAHolderThatWasStoppedWritesLateAndIsRefused(t *testing.T) {
	if os.Getenv(workerJob) != "" {
		writeLate(t)
		return
	}
	t.Parallel()
	s := startShop(t)
	l := cluster.NewConnected(t, s.URLs(), redlock.WithFencing(), redlock.WithNodeTimeout(patience))
	for _, next := range [][]any{{"next"}, {}, nil} { // it writes, reads, does nothing
		holder := startWorker(t, s, cluster.LockName(t), "write", "")
		var token int64
		_, err := fmt.Sscanf(holder.next(), "fence %d", &token)
		require.NoError(t, err)
		holder.signal(syscall.SIGSTOP)
		lock, err := l.Lock(t.Context(), cluster.LockName(t)) // when the other's has expired
		require.NoError(t, err)
		require.Greater(t, lock.Fence(), token)
		before := valueIn(t, s.store, 0, "data")
		if next != nil {
			require.True(t, writeFenced(t, s.store, "data", lock.Fence(), next...))
		}
		holder.goOn()
		holder.signal(syscall.SIGCONT)
		switch {
		case len(next) > 0:
			assert.Contains(t, holder.next(), "STALE a newer token has been seen")
			assert.Equal(t, "next", valueIn(t, s.store, 0, "data"))
		case next != nil:
			assert.Contains(t, holder.next(), "STALE a newer token has been seen")
			assert.Equal(t, before, valueIn(t, s.store, 0, "data"), "what was read is still true")
		default:
			assert.Equal(t, "wrote OK <nil>", holder.next())
			require.True(t, writeFenced(t, s.store, "data", lock.Fence(), "next"), "the order of tokens")
		}
		require.NoError(t, lock.Unlock(t.Context()))
	}
}
