//go:build go1.26

package random_test

import (
	"testing"
	"testing/cryptotest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redquorum/redquorum/redlock/internal/random"
)

func TestNumbersAreInRangeAndReachItsEnds(t *testing.T) {
	seen := make(map[int]int)
	for range 1000 {
		seen[random.N(3)]++
		f := random.Float64()
		assert.True(t, f >= 0 && f < 1, f)
	}
	assert.Len(t, seen, 3)
	assert.Zero(t, seen[-1]+seen[3])
}

func TestASeedDecidesTheNumbers(t *testing.T) {
	draw := func() (all []any) {
		cryptotest.SetGlobalRandom(t, 1)
		for range 10 {
			all = append(all, random.N(time.Hour), random.Float64())
		}
		return all
	}
	assert.Equal(t, draw(), draw())
}
