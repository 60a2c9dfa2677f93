package fake

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redquorum/redquorum/clock/clocktest"
)

// A seed decides the delays of each connection.
func TestDelaysAreRepeatedByTheirSeed(t *testing.T) {
	const least, most = time.Millisecond, 3 * time.Millisecond
	InBubble(t, 3, func(t *testing.T, clk *clocktest.Clock, c Cluster) {
		took := make([][]time.Duration, len(c))
		for i, n := range c {
			n.DelayBetween(least, most, []uint64{1, 1, 2}[i])
			for range 5 {
				since := clk.Now()
				n.Do(t, "PING")
				d := clk.Now().Sub(since)
				assert.GreaterOrEqual(t, d, 2*least)
				assert.LessOrEqual(t, d, 2*most)
				took[i] = append(took[i], d)
			}
		}
		assert.Equal(t, took[0], took[1], "the same seed")
		assert.NotEqual(t, took[0], took[2], "another seed")
		assert.Greater(t, len(took[0]), 1)
		assert.NotEqual(t, took[0][0], took[0][1], "another connection")
	})
}

func TestLostCountsWhatWasLost(t *testing.T) {
	InBubble(t, 1, func(t *testing.T, _ *clocktest.Clock, c Cluster) {
		n := c[0]
		n.LoseRequests(1)
		assert.Zero(t, n.Lost())
		conn := dial(t, n)
		_, err := conn.Do("PING")
		assert.Error(t, err)
		assert.Equal(t, 1, n.Lost())
		assert.Equal(t, "PONG", n.Do(t, "PING"))
		assert.Equal(t, 1, n.Lost())
	})
}
