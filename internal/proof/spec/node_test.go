package spec

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

func alive(string) bool { return true }

// The tokens rest on this: a node confirms only numbers above everything that it confirmed before,
// under every name of the set, and no counter ever falls.
func TestNodeConfirmsEachNumberOnce(t *testing.T) {
	sets := [][]string{{"x"}, {"y"}, {"x", "y"}}
	rapid.Check(t, func(t *rapid.T) {
		node := NewNode()
		value := rapid.SampledFrom([]string{"a", "b", "c"})
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			node.Now += rapid.Int64Range(-5, 5).Draw(t, "time") // clocks are set back, too
			set, v := rapid.SampledFrom(sets).Draw(t, "set"), value.Draw(t, "value")
			ts := node.Now + rapid.Int64Range(-4, 4).Draw(t, "ts")
			before := map[string]int64{"x": node.Entry("x").Fence, "y": node.Entry("y").Fence}
			var fence int64
			var confirmed bool
			switch rapid.IntRange(0, 6).Draw(t, "operation") {
			case 0:
				fence, confirmed = node.Acquire(set, v, ts)
			case 1:
				set = set[:1]
				fence, confirmed = node.Coordinator(set[0], v, ts)
			case 2:
				fence = before["x"] + rapid.Int64Range(-1, 3).Draw(t, "above")
				confirmed = node.Raise(set, v, fence, 0)
			case 3:
				fence, confirmed = node.Adopt(set, value.Draw(t, "old"), v, ts)
			case 4:
				node.Entry(set[0]).Release(v, 0, func(string) bool { return rapid.Bool().Draw(t, "alive") })
			case 5:
				node.Entry(set[0]).Leave(v, 0, alive)
			case 6:
				node.Entry(set[0]).Drop()
			}
			for name, was := range before {
				assert.GreaterOrEqual(t, node.Entry(name).Fence, was)
			}
			for _, name := range set {
				if confirmed {
					assert.Greater(t, fence, before[name])
					assert.Equal(t, fence, node.Entry(name).Fence)
					assert.Equal(t, v, node.Entry(name).Key)
				} else {
					assert.Equal(t, before[name], node.Entry(name).Fence)
				}
			}
		}
	})
}
