package figures

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
)

func figureOf(rounds ...float64) Figure {
	f, _ := Of(rounds)
	return f
}

func TestDivisionByNothingIsNoFigure(t *testing.T) {
	for _, rounds := range [][]float64{nil, {1, math.NaN()}, {1, math.Inf(1)}, {1, math.Inf(-1)}} {
		_, ok := Of(rounds)
		assert.False(t, ok, "%v", rounds)
	}
	for _, other := range []Figure{figureOf(1, 2, 3), figureOf(1, 0), {}} {
		_, ok := figureOf(1, 2).By(other)
		assert.False(t, ok, "%v", other)
	}
}

func TestAPhaseHasTheMediansOfItsRuns(t *testing.T) {
	course := Course{"a", []Run{
		{[]float64{1, 3, 0, 0}, []float64{2, 1, 500, 1000}},
		{[]float64{0, 0, 0, 0}, []float64{9, 9, 9, 9}},
		{[]float64{9, 9, 9, 9}, []float64{1, 1, 5000, 5000}},
	}}
	for phase, want := range map[Phase][2]float64{{Calm, 0, 1}: {2, 2}, {"one killed", 1, 2}: {0, 1000}, {"behind the end", 2, 3}: {0, 0}} {
		locks, wait := course.Of(phase, 0.5)
		assert.Equal(t, want, [2]float64{locks, wait}, phase.Title)
	}
	assert.Equal(t, Run{[]float64{1, 3, 0, 0}, []float64{2, 1, 500, 1000}}, course.Middle())
}
