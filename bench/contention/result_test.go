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
		Commands: 30, Counters: map[string]uint64{"taken": 3},
		Turns: [][]turn{
			{{false, 10, 20, 30}, {false, 40, 110, 115}, {false, 116, 116, 120}},
			{{false, 50, 140, 150}, {false, 150, 205, 210}},
		},
	},
	{
		Commands: 10, Counters: map[string]uint64{"taken": 4}, UnlockErrors: 1, UnlockError: "broken",
		Turns: [][]turn{
			{{false, 60, 125, 130}, {false, 131, 160, 170}, {false, 201, 211, 212}},
			{{false, 90, 0, 203}},
		},
	},
}

func TestFiguresAreThoseOfTheWindow(t *testing.T) {
	r, err := newResult(handMade, &run{From: 0, Begin: 100, End: 200}, 1, 1)
	require.NoError(t, err)
	assert.Equal(t, 5, r.Acquisitions, "at 110, 116, 125, 140 and 160")
	assert.Equal(t, 3, r.GoroutineChanges, "at 125, 140 and 160; the one before 110 is of the same goroutine")
	assert.Equal(t, []time.Duration{0, 29, 50, 65, 70, 90, 110}, r.Waits, "two of them not finished")
	assert.Equal(t, 2, r.Unfinished)
	assert.Equal(t, []time.Duration{1, 5, 10, 10, 80}, r.Gaps)
	assert.EqualValues(t, 40, r.Commands)
	assert.InDelta(t, 0.8, r.MinProcessShare, 1e-9, "2 of 5, of two processes")
	assert.Equal(t, map[string]uint64{"taken": 7}, r.Counters)
	assert.Equal(t, 1, r.UnlockErrors)
	assert.Equal(t, "broken", r.UnlockError)

	assert.InDelta(t, 5e7, r.AcquisitionsPerSecond(), 1, "5 within 100 ns")
	assert.InDelta(t, 3e7, r.GoroutineChangesPerSecond(), 1)
	assert.InDelta(t, 8, r.CommandsPerAcquisition(), 1e-9)
	assert.InDelta(t, 40./3, r.CommandsPerGoroutineChange(), 1e-9)
	assert.EqualValues(t, 414/7, r.MeanWait())
	assert.EqualValues(t, 65, r.Wait(50))
	assert.EqualValues(t, 110, r.Wait(100))
	assert.EqualValues(t, 10, r.Gap(50))
}

func TestOverlapInTheWarmUpFailsTheMeasurement(t *testing.T) {
	for permits, turns := range [][][]turn{
		1: {{{false, 1, 2, 6}}, {{false, 1, 4, 5}}},
		2: {{{false, 1, 2, 6}}, {{false, 1, 4, 7}}, {{false, 1, 5, 6}}},
	} {
		for last := range turns {
			_, err := newResult([]*report{{Turns: turns[:last+1]}}, &run{Begin: 100, End: 200}, permits, 1)
			assert.Equal(t, last >= max(permits, 1), err != nil, "%v", err)
		}
	}
}

func TestEachNameHasOneHolder(t *testing.T) {
	turns := [][]turn{{{false, 1, 2, 6}}, {{false, 1, 3, 5}}} // of goroutines 0 and 1
	r, err := newResult([]*report{{Turns: turns}}, &run{End: 200}, 1, 2)
	require.NoError(t, err)
	assert.Equal(t, 2, r.Acquisitions)
	assert.Zero(t, r.GoroutineChanges)
	assert.Empty(t, r.Gaps)
	_, err = newResult([]*report{{Turns: turns[:1]}, {Turns: turns[:1]}}, &run{End: 200}, 1, 2)
	assert.Error(t, err, "of two processes, for one name")
}

func TestNothingAcquiredGivesNoShares(t *testing.T) {
	r, err := newResult([]*report{{Turns: [][]turn{{{false, 1, 0, 9}}}}}, &run{End: 10}, 1, 1)
	require.NoError(t, err)
	assert.Zero(t, r.MinProcessShare)
	assert.EqualValues(t, 9, r.Wait(99))
	assert.Zero(t, r.Gap(50))
}
