package contention

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Two processes of two goroutines each, and a window from 100 to 200. The last goroutine never gets
// the name.
var handMade = []*report{
	{
		Commands: 30,
		Turns: [][]turn{
			{{10, 20, 30}, {40, 110, 115}, {116, 116, 120}},
			{{50, 140, 150}, {150, 205, 210}},
		},
	},
	{
		Commands: 10, UnlockErrors: 1, UnlockError: "broken",
		Turns: [][]turn{
			{{60, 125, 130}, {131, 160, 170}, {201, 211, 212}},
			{{90, 0, 203}},
		},
	},
}

func TestFiguresAreThoseOfTheWindow(t *testing.T) {
	r, err := newResult(handMade, &run{From: 0, Begin: 100, End: 200}, 1)
	require.NoError(t, err)
	assert.Equal(t, 5, r.Acquisitions, "at 110, 116, 125, 140 and 160")
	assert.Equal(t, 3, r.GoroutineChanges, "at 125, 140 and 160; the one before 110 is of the same goroutine")
	assert.Equal(t, []time.Duration{0, 29, 50, 65, 70, 90, 110}, r.Waits, "two of them not finished")
	assert.EqualValues(t, 40, r.Commands)
	assert.InDelta(t, 0.8, r.MinProcessShare, 1e-9, "2 of 5, of two processes")
	assert.Equal(t, 1, r.UnlockErrors)
	assert.Equal(t, "broken", r.UnlockError)

	assert.Equal(t, map[string]float64{
		"locks/s": 5e7, "changes/s": 3e7, "mean-wait-ms": 414 / 7 * 1e-6, "p99-wait-ms": 110e-6, "longest-wait-ms": 110e-6,
		"commands/change": 40. / 3, "least-share": 0.8,
	}, r.Figures(), "within 100 ns")
}

func TestOverlapInTheWarmUpFailsTheMeasurement(t *testing.T) {
	turns := [][]turn{{{1, 2, 6}}, {{1, 4, 5}}}
	for last := range turns {
		_, err := newResult([]*report{{Turns: turns[:last+1]}}, &run{Begin: 100, End: 200}, 1)
		assert.Equal(t, last > 0, err != nil, "%v", err)
	}
}

func TestEachNameHasOneHolder(t *testing.T) {
	turns := [][]turn{{{1, 2, 6}}, {{1, 3, 5}}} // of goroutines 0 and 1
	r, err := newResult([]*report{{Turns: turns}}, &run{End: 200}, 2)
	require.NoError(t, err)
	assert.Equal(t, 2, r.Acquisitions)
	assert.Zero(t, r.GoroutineChanges)
	_, err = newResult([]*report{{Turns: turns[:1]}, {Turns: turns[:1]}}, &run{End: 200}, 2)
	assert.Error(t, err, "of two processes, for one name")
}

func TestNothingAcquiredGivesNoShares(t *testing.T) {
	r, err := newResult([]*report{{Turns: [][]turn{{{1, 0, 9}}}}}, &run{End: 10}, 1)
	require.NoError(t, err)
	assert.Zero(t, r.MinProcessShare)
	assert.NotContains(t, r.Figures(), "commands/change")
}
