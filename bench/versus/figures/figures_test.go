package figures

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func figureOf(rounds ...float64) Figure {
	f, _ := Of(rounds)
	return f
}

func TestFigureKeepsEveryRound(t *testing.T) {
	assert.Equal(t, Figure{Median: 2, Lowest: 1, Highest: 3.1235, Rounds: []float64{3.1235, 1, 2}}, figureOf(3.1234567, 1, 2))
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

func TestRatioIsTheMedianOfTheRoundsRatios(t *testing.T) {
	got, ok := figureOf(10, 2, 30).By(figureOf(10, 1, 10))
	assert.True(t, ok)
	assert.Equal(t, figureOf(1, 2, 3), got)
}

func TestDataIsReadAsItWasWritten(t *testing.T) {
	value := figureOf(1, 2.5)
	want := &Data{
		Environment: Environment{CPUs: 2, Platform: "linux/amd64", Go: "go1", Server: "Redis 7", Commit: "abc"},
		Experiments: []Experiment{
			{Name: Throughput, Setup: "a \"sentence\"", Rows: []Row{
				{Peer: "a", Size: 1, Values: map[string]Figure{LocksPerSecond: value}},
				{Peer: "b", State: Late, Values: map[string]Figure{P50: value, P99: value}},
			}},
			{Name: Nodes, Rows: []Row{{Peer: "a", Size: 3, Values: map[string]Figure{ServerCPU: value}}}},
		},
	}
	path := filepath.Join(t.TempDir(), "data.json")
	require.NoError(t, want.Write(path))
	got, err := Read(path)
	require.NoError(t, err)
	assert.Equal(t, want, got)
	f, ok := got.Experiment(Throughput).Value("b", Late, 0, P99)
	assert.True(t, ok)
	assert.InDelta(t, 1.75, f.Median, 0)
	_, ok = got.Experiment(Latency).Value("b", Late, 0, P99)
	assert.False(t, ok, "an experiment that was not done")
}

func TestRecoveryIsReadAsItWasWritten(t *testing.T) {
	want := &Recovery{
		Environment: Environment{CPUs: 2, Platform: "linux/amd64", Go: "go1", Server: "Redis 7"},
		Setup:       "a \"sentence\"",
		Step:        0.5,
		Phases:      []Phase{{Calm, 0, 1}, {"one killed", 1, 2}},
		Courses:     []Course{{"a", []float64{1, 3, 0, 0}, []float64{2, 1, 500, 1000}}},
	}
	path := filepath.Join(t.TempDir(), "recovery.json")
	require.NoError(t, want.Write(path))
	got, err := ReadRecovery(path)
	require.NoError(t, err)
	require.Equal(t, want, got)
	for phase, want := range map[Phase][2]float64{got.Phases[0]: {2, 2}, got.Phases[1]: {0, 1000}, {"behind the end", 2, 3}: {0, 0}} {
		locks, wait := got.Courses[0].Of(phase, got.Step)
		assert.Equal(t, want, [2]float64{locks, wait}, phase.Title)
	}

	for name, text := range map[string]string{
		"no wait": `{"step":1,"courses":[{"peer":"a","locks":[1],"waits":[]}]}`,
		"no step": `{"courses":[{"peer":"a","locks":[1],"waits":[1]}]}`,
		"unknown": `{"stop":1}`,
		"nothing": ``,
	} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := ReadRecovery(path)
		assert.Error(t, err, name)
	}
}

// experiment has ours, a redsync and the limit with two rounds, and a redsync that is best.
func experiment() *Experiment {
	e := &Experiment{Name: Throughput, Setup: "a setup"}
	for _, row := range []struct {
		peer  string
		locks Figure
	}{
		{"redquorum", figureOf(4000, 6000)},
		{"redsync-a", figureOf(1000, 1200)},
		{"redsync-b", figureOf(2000, 2000)},
		{"limit", figureOf(8000, 8000)},
	} {
		e.Rows = append(e.Rows, Row{Peer: row.peer, Size: 1, Values: map[string]Figure{LocksPerSecond: row.locks, ClientCPU: row.locks}})
	}
	return e
}

func TestTableHasTheMediansAndTheRatiosToTheBest(t *testing.T) {
	assert.Equal(t, `| corner | more | less | none |
| --- | ---: | ---: | ---: |
| redquorum | 5,000 | 5,000.0 | – |
| redsync-a | 1,100 | 1,100.0 | – |
| redsync-b | 2,000 | 2,000.0 | – |
| limit | 8,000 | 8,000.0 | – |
| redquorum, divided by the best redsync | 2.50 (2.00–3.00) | 4.50 (4.00–5.00) | – |
| redquorum, divided by the limit | 0.62 (0.50–0.75) | 0.62 (0.50–0.75) | – |
`, Table(experiment(), "corner", []Column{
		{Title: "more", Size: 1, Value: LocksPerSecond, More: true},
		{Title: "less", Size: 1, Value: ClientCPU, Decimals: 1},
		{Title: "none", Size: 2, Value: ClientCPU},
	}))
}

func TestColumnCanBeDividedByAnother(t *testing.T) {
	c := Column{Size: 1, Value: LocksPerSecond, Over: &Column{Size: 1, Value: ClientCPU}}
	assert.Equal(t, "1", c.Cell(experiment(), "redquorum"))
	c.Over.Size = 2
	assert.Equal(t, "–", c.Cell(experiment(), "redquorum"), "divided by nothing")
}

func TestThousandsAreGrouped(t *testing.T) {
	for _, c := range []struct {
		value    float64
		decimals int
		want     string
	}{
		{0, 0, "0"},
		{999, 0, "999"},
		{1000, 0, "1,000"},
		{1234567.89, 1, "1,234,567.9"},
		{-1000, 0, "-1,000"},
		{0.005, 2, "0.01"},
	} {
		assert.Equal(t, c.want, Grouped(c.value, c.decimals))
	}
}
