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
		Courses: []Course{{"a", []Run{
			{[]float64{1, 3, 0, 0}, []float64{2, 1, 500, 1000}},
			{[]float64{0, 0, 0, 0}, []float64{9, 9, 9, 9}},
			{[]float64{9, 9, 9, 9}, []float64{1, 1, 5000, 5000}},
		}}},
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

	assert.Equal(t, Run{[]float64{1, 3, 0, 0}, []float64{2, 1, 500, 1000}}, got.Courses[0].Middle())

	for name, text := range map[string]string{
		"no wait": `{"step":1,"courses":[{"peer":"a","runs":[{"locks":[1],"waits":[]}]}]}`,
		"no step": `{"courses":[{"peer":"a","runs":[{"locks":[1],"waits":[1]}]}]}`,
		"no run":  `{"step":1,"courses":[{"peer":"a"}]}`,
		"shorter": `{"step":1,"courses":[{"peer":"a","runs":[{"locks":[1,1],"waits":[1,1]},{"locks":[1],"waits":[1]}]}]}`,
		"unknown": `{"stop":1}`,
		"nothing": ``,
	} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := ReadRecovery(path)
		assert.Error(t, err, name)
	}
}
