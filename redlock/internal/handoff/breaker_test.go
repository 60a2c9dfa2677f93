package handoff

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redquorum/redquorum/clock/clocktest"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
)

func TestANodeThatIsLateTwiceInARowOrFailsIsPassedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clk := clocktest.New()
		p := &Pilots{clock: clk}
		p.breaker.nodes = make([]trips, 1)
		const fast, slow = time.Millisecond, 30 * time.Millisecond
		isOpen := func() bool { return p.breaker.open(clk.Now()) == quorum.Only(0) }
		assert.False(t, p.Judge(0, time.Second, true), "nobody knows what is usual")
		p.Took(fast)
		for range 3 {
			assert.False(t, p.Judge(0, slow, true), "late for the first time")
			assert.False(t, isOpen())
			assert.False(t, p.Judge(0, fast, true))
		}
		assert.False(t, p.Judge(0, slow, true))
		assert.True(t, p.Judge(0, slow, true))
		assert.True(t, isOpen())
		time.Sleep(tripMin + time.Millisecond)
		assert.False(t, isOpen())
		assert.True(t, p.Judge(0, slow, true), "once is enough: it has not been well since")
		time.Sleep(2*tripMin - time.Millisecond)
		assert.True(t, isOpen(), "twice as long")
		time.Sleep(2 * time.Millisecond)
		assert.False(t, isOpen())
		assert.False(t, p.Judge(0, fast, true))
		assert.False(t, p.Judge(0, slow, true), "it was well since")
		assert.False(t, p.Judge(0, fast, true))
		assert.True(t, p.Judge(0, slow, false), "no answer")
		assert.True(t, isOpen())
	})
}
