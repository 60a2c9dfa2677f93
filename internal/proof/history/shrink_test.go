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
