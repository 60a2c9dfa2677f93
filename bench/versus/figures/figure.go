package figures

import (
	"math"
	"slices"
	"strconv"
)

// Figure is one value of all rounds.
type Figure struct {
	Median  float64   `json:"median"`
	Lowest  float64   `json:"lowest"`
	Highest float64   `json:"highest"`
	Rounds  []float64 `json:"rounds"` // in the order in which they were measured; never empty
}

// precision is how many digits of a value are kept: more than are stable.
const precision = 5

// Of returns the figure of the values, and whether there are any and all of them are numbers. A
// division by nothing is none.
func Of(rounds []float64) (Figure, bool) {
	var rounded []float64
	for _, value := range rounds {
		if math.IsNaN(value) || math.IsInf(value, 0) {
			return Figure{}, false
		}
		rounded = append(rounded, round(value))
	}
	if len(rounded) == 0 {
		return Figure{}, false
	}
	return Figure{round(Median(rounded)), slices.Min(rounded), slices.Max(rounded), rounded}, true
}

func round(value float64) float64 {
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(value, 'g', precision, 64), 64)
	if err != nil {
		panic(err) // FormatFloat wrote it
	}
	return rounded
}

// By divides each value by the one of the same round, because a disturbance of a round affects
// both. It returns false if a divisor is 0, or the rounds differ in number.
func (f Figure) By(other Figure) (Figure, bool) {
	if len(f.Rounds) != len(other.Rounds) {
		return Figure{}, false
	}
	return Of(Divide(f.Rounds, other.Rounds))
}

// Median returns the middle value, or the mean of the two middle ones. There is at least one.
func Median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 0 {
		return (sorted[middle-1] + sorted[middle]) / 2
	}
	return sorted[middle]
}

// Divide divides each value by the one of the same round.
func Divide(values, by []float64) []float64 {
	quotients := make([]float64, len(values))
	for i := range values {
		quotients[i] = values[i] / by[i]
	}
	return quotients
}
