package design

import (
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAHistoryIsTheSameEachTime(t *testing.T) {
	for i := range uint64(50) {
		first, broken := Tell(3, i, Rules{})
		again, _ := Tell(3, i, Rules{})
		assert.Equal(t, first, again)
		assert.Equal(t, Nothing, broken)
		assert.Greater(t, len(first), 1)
	}
}

func TestTheFirstFailureIsTheSameHoweverManyPlay(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	var reports []Report
	for _, workers := range []int{1, 5} {
		runtime.GOMAXPROCS(workers)
		reports = append(reports, Run(2, mostHistories, Rules{NoRate: true}, Exclusive))
	}
	assert.True(t, reports[0].Failed)
	assert.Equal(t, reports[0].Failure, reports[1].Failure)
	assert.Equal(t, reports[0].Histories, reports[1].Histories)
}

func TestAFailureIsShrunkToWhatItNeeds(t *testing.T) {
	for _, m := range mistakes[:6] {
		report := Run(2, mostHistories, m.rules, m.broken)
		require.True(t, report.Failed, m.name)
		w := &world{rules: m.rules}
		fails := func(p plan) bool {
			w.play(&p)
			return w.broken[m.broken]
		}
		long := *newPlanner().make(2, report.Failure)
		short := shrink(long, fails)
		assert.True(t, fails(short), m.name)
		assert.Less(t, len(short.items), len(long.items), m.name)
		for i := range short.items {
			shorter := short
			shorter.items = slices.Delete(slices.Clone(short.items), i, i+1)
			assert.False(t, fails(shorter), "%s: %v is not needed", m.name, &short.items[i])
		}
		lines := Shrink(2, report.Failure, m.rules, m.broken)
		assert.True(t, strings.HasSuffix(lines[len(lines)-1], m.broken.String()), m.name)
	}
}

func TestAHistoryThatBreaksNothingIsNotShrunk(t *testing.T) {
	assert.Nil(t, Shrink(1, 1, Rules{}, Nothing))
}
