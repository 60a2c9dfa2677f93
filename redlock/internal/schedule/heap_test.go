package schedule

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock"
)

func TestHeapGivesItemsInTheOrderOfTheirTimes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		h := heap[*task]{entry: (*task).ref}
		when := map[*task]clock.Instant{}
		tasks := make([]*task, 1+rng.IntN(60))
		for i := range tasks {
			tasks[i] = &task{}
		}
		for range 300 {
			task := tasks[rng.IntN(len(tasks))]
			if at, on := when[task]; on && rng.IntN(3) == 0 {
				require.Equal(t, at, h.nodes[task.entry.pos-1].at)
				require.Same(t, task, h.remove(int(task.entry.pos)-1))
				require.Zero(t, task.entry.pos)
				delete(when, task)
				continue
			}
			when[task] = clock.Instant(rng.IntN(50))
			h.put(task, when[task])
			require.Len(t, h.nodes, len(when))
			require.Equal(t, slices.Min(slices.Collect(maps.Values(when))), h.nodes[0].at)
		}
		last := clock.Instant(-1)
		for len(h.nodes) > 0 {
			at := h.nodes[0].at
			require.LessOrEqual(t, last, at)
			require.Equal(t, when[h.remove(0)], at)
			last = at
		}
	}
}

// BenchmarkRenewals takes the earliest of 100,000 items and adds it again, later than all others.
func BenchmarkRenewals(b *testing.B) {
	h := heap[*task]{entry: (*task).ref}
	at := clock.Instant(0)
	for range 100_000 {
		h.put(&task{}, at)
		at++
	}
	for b.Loop() {
		h.put(h.remove(0), at)
		at++
	}
}
