package clock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redquorum/redquorum/clock"
)

func TestBackoffDoublesToItsLongestAndStaysInTheUpperHalf(t *testing.T) {
	b := clock.Backoff{Shortest: 10 * time.Millisecond, Longest: 65 * time.Millisecond}
	for range 100 {
		for _, want := range []time.Duration{10, 20, 40, 65, 65, 65} {
			want *= time.Millisecond
			got := b.Next()
			assert.LessOrEqual(t, got, want)
			assert.GreaterOrEqual(t, got, want/2)
		}
		b.Reset()
	}
}
