package handoff

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// hasTurn reports whether a ticket is the first of its queue; nil was from the beginning.
func hasTurn(t *Ticket) bool {
	if t == nil {
		return true
	}
	select {
	case <-t.Turn():
		return true
	default:
		return false
	}
}

func TestAQueueServesInOrderWhoeverLeaves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q Queue
		queues := map[string][]*Ticket{} // the model
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			name := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "name")
			waiting := queues[name]
			if len(waiting) == 0 || rapid.Bool().Draw(t, "joins") {
				ticket := q.Join(NameOf([]string{name}))
				assert.Equal(t, len(waiting) == 0, ticket == nil)
				queues[name] = append(waiting, ticket)
			} else {
				i := rapid.IntRange(0, len(waiting)-1).Draw(t, "leaves")
				q.Leave(NameOf([]string{name}), waiting[i])
				queues[name] = slices.Delete(waiting, i, i+1)
			}
			for _, waiting := range queues {
				for i, ticket := range waiting {
					if hasTurn(ticket) != (i == 0) {
						t.Fatalf("number %d of %d: turn %v", i, len(waiting), hasTurn(ticket))
					}
				}
			}
		}
	})
}

func TestThoseBehindLearnWhyTheFirstStillWaits(t *testing.T) {
	var q Queue
	name, other := NameOf([]string{"a"}), NameOf([]string{"b"})
	require.Nil(t, q.Join(name))
	second := q.Join(name)
	require.NoError(t, q.Trouble(name))
	taken := errors.New("taken")
	q.Report(name, taken)
	assert.Equal(t, taken, q.Trouble(name))
	assert.NoError(t, q.Trouble(other))
	q.Leave(name, nil)
	assert.Equal(t, taken, q.Trouble(name), "until the next one reports")
	q.Leave(name, second)
	assert.NoError(t, q.Trouble(name))
	q.Join(other)
	assert.NoError(t, q.Trouble(other), "a queue that is used again begins anew")
}

func TestQueuesAreOfTheSameNamesInTheSameOrder(t *testing.T) {
	names := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "1:a", "1:a1:b", ":", "", "3:1:a"}), 1, 4)
	rapid.Check(t, func(t *rapid.T) {
		a, b := names.Draw(t, "a"), names.Draw(t, "b")
		if (NameOf(a) == NameOf(b)) != slices.Equal(a, b) {
			t.Fatalf("%q and %q: %v and %v", a, b, NameOf(a), NameOf(b))
		}
	})
}
