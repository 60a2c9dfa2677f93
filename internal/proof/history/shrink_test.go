package history_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/redquorum/redquorum/internal/proof/history"
)

func TestShrinkingKeepsWhatIsNeeded(t *testing.T) {
	for _, needed := range [][]int{{}, {0}, {3, 7}, {0, 1, 10}, {4, 5, 6, 10}} {
		rest := history.Without([]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, func(rest []int) bool {
			return !slices.ContainsFunc(needed, func(i int) bool { return !slices.Contains(rest, i) })
		})
		assert.ElementsMatch(t, needed, rest)
	}
}

// A step may make another one possible again.
func TestShrinkingGoesOnUntilNoStepHelps(t *testing.T) {
	type plan struct{ x, y int }
	left := history.Shrink(plan{9, 9}, func(p plan) bool { return p.x >= p.y && p.y >= 2 },
		func(p plan, try func(plan) bool) { try(plan{p.x - 1, p.y}) },
		func(p plan, try func(plan) bool) { try(plan{p.x, p.y - 1}) },
	)
	assert.Equal(t, plan{2, 2}, left)
}
