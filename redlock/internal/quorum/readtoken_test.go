package quorum

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// The reference is what internal/proof/search/shared searches: a quorum granted the token at most,
// and a quorum is at it or above once those below are raised.
func TestAReadersTokenIsTheSmallestThatAQuorumGrantedAtMost(t *testing.T) {
	const most = 4
	for nodes := 1; nodes <= 5; nodes++ {
		fences := make([]int64, nodes)
		var try func(node int, granted NodeSet)
		try = func(node int, granted NodeSet) {
			if node < nodes {
				for fences[node] = range int64(most) { // 0: it did not grant
					next := granted
					if fences[node] > 0 {
						next.Add(node)
					}
					try(node+1, next)
				}
				return
			}
			token, at, below := DecideReadToken(fences, granted)
			notAbove := func(t int64) (n int) {
				for i := range granted.Nodes() {
					if fences[i] <= t {
						n++
					}
				}
				return n
			}
			if granted.Len() < Need(nodes) {
				assert.Zero(t, token)
				assert.Zero(t, at|below)
				return
			}
			assert.GreaterOrEqual(t, notAbove(token), Need(nodes), "%v", fences)
			assert.Less(t, notAbove(token-1), Need(nodes), "%v: not the smallest", fences)
			for i := range at.Nodes() {
				assert.True(t, granted.Has(i) && fences[i] >= token, "%v", fences)
			}
			for i := range below.Nodes() {
				assert.True(t, granted.Has(i) && fences[i] < token, "%v", fences)
			}
			assert.GreaterOrEqual(t, at.Or(below).Len(), Need(nodes), "%v", fences)
			assert.Equal(t, at.Len() < Need(nodes), !below.Empty(), "%v: no raise that is not needed", fences)
		}
		try(0, 0)
	}
}
