package bench

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

// TestWaitersLeaveNothingBehind does what BenchmarkWaiting does, with few waiters. BenchmarkWaiting
// itself judges what is left.
func TestWaitersLeaveNothingBehind(t *testing.T) {
	redistest.Require(t)
	const n = 200
	w := measureWaiting(t, newCluster(t, contentionNodes), n, 20, 300*time.Millisecond)
	assert.Equal(t, n, w.callers, "everyone was waiting")
	assert.Positive(t, w.heap)
	assert.Positive(t, w.library)
	assert.Positive(t, w.leaving)
}
