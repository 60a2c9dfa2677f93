package demo

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

const ms = time.Millisecond

// at returns the hold of a worker that did not wait.
func at(worker int, began, ended time.Duration) hold {
	return hold{worker: worker, asked: began, began: began, ended: ended}
}

func TestJudgeFindsOverlaps(t *testing.T) {
	for _, c := range []struct {
		name  string
		holds []hold
		want  [][2]int // workers, first and second
	}{
		{"touching", []hold{at(1, 0, 10), at(2, 10, 20)}, nil},
		{"partly", []hold{at(1, 0, 10), at(2, 9, 20)}, [][2]int{{1, 2}}},
		{"in any order", []hold{at(2, 9, 20), at(1, 0, 10)}, [][2]int{{1, 2}}},
		{"within", []hold{at(1, 0, 10), at(2, 3, 4)}, [][2]int{{1, 2}}},
		{"the same", []hold{at(1, 0, 10), at(2, 0, 10)}, [][2]int{{1, 2}}},
		{"a long one over two", []hold{at(1, 0, 10), at(2, 1, 2), at(3, 8, 9)}, [][2]int{{1, 2}, {1, 3}}},
		{"over before it began", []hold{at(1, 0, 10), at(2, 5, 5)}, nil},
		{"one of many", []hold{at(1, 0, 2), at(2, 2, 4), at(3, 4, 6), at(4, 5, 7)}, [][2]int{{3, 4}}},
	} {
		var got [][2]int
		for _, o := range findOverlaps(c.holds) {
			got = append(got, [2]int{o.first.worker, o.second.worker})
		}
		assert.Equal(t, c.want, got, c.name)
	}
}

// The naive judge checks every instant of a small world: two holders at one instant are an overlap.
func TestJudgeAgreesWithANaiveJudge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const end = 12
		holds := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) hold {
			began := rapid.IntRange(0, end).Draw(t, "began")
			return at(0, time.Duration(began), time.Duration(rapid.IntRange(began, end).Draw(t, "ended")))
		}), 0, 6).Draw(t, "holds")
		want := false
		for instant := range time.Duration(end) {
			holders := 0
			for _, h := range holds {
				if h.began <= instant && instant < h.ended {
					holders++
				}
			}
			want = want || holders > 1
		}
		assert.Equal(t, want, len(findOverlaps(holds)) > 0)
	})
}

func TestTurnsGoInTheOrderOfAsking(t *testing.T) {
	asked := func(worker int, asked, began time.Duration) hold {
		return hold{worker: worker, asked: asked, began: began, ended: began + ms}
	}
	for _, c := range []struct {
		name    string
		holds   []hold
		waiting []wait
		want    int
	}{
		{"nobody", nil, nil, 0},
		{"in order", []hold{asked(1, 0, 100*ms), asked(2, 50*ms, 110*ms)}, nil, 2},
		{"overtaken", []hold{asked(2, 50*ms, 100*ms), asked(1, 0, 110*ms)}, nil, 1},
		{"asked at about the same time", []hold{asked(2, 9*ms, 100*ms), asked(1, 0, 110*ms)}, nil, 2},
		{"after the other held it", []hold{asked(1, 0, 10*ms), asked(2, 50*ms, 60*ms)}, nil, 2},
		{"overtook a worker that waits for ever", []hold{asked(2, 50*ms, 100*ms)}, []wait{{1, 0}}, 0},
		{"did not overtake a worker that asked later", []hold{asked(2, 50*ms, 100*ms)}, []wait{{1, 90 * ms}}, 1},
	} {
		assert.Equal(t, c.want, countInTurn(c.holds, c.waiting), c.name)
	}
}

func TestWaitsAreThoseOfAPeriod(t *testing.T) {
	holds := []hold{
		{asked: 0, began: 10, ended: 20},
		{asked: 5, began: 20, ended: 30},
		{asked: 10, began: 40, ended: 50},
	}
	got := waitsOf(holds, 10, 40)
	assert.Equal(t, waits{10, 15}, got)
	assert.Equal(t, time.Duration(12), got.mean())
	assert.Zero(t, waits(nil).mean())
}

func TestPercentileIsTheNearestRank(t *testing.T) {
	hundred := make(waits, 100)
	for i := range hundred {
		hundred[i] = time.Duration(100 - i)
	}
	for _, c := range []struct {
		values  waits
		percent int
		want    time.Duration
	}{
		{nil, 50, 0},
		{waits{7}, 1, 7},
		{waits{7}, 99, 7},
		{waits{2, 1}, 50, 1},
		{waits{3, 1, 2}, 50, 2},
		{waits{3, 1, 2}, 99, 3},
		{hundred, 1, 1},
		{hundred, 50, 50},
		{hundred, 99, 99},
		{hundred, 100, 100},
	} {
		assert.Equal(t, c.want, c.values.percentile(c.percent), "p%d of %v", c.percent, c.values)
	}
}
