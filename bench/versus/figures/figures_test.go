package figures

import (
	"math"
	"path/filepath"
	"reflect"
	"testing"
)

func TestMedianIsInTheMiddle(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{[]float64{4}, 4},
		{[]float64{9, 1, 5}, 5},
		{[]float64{9, 1, 5, 6}, 5.5},
	} {
		if got := Median(c.values); got != c.want {
			t.Errorf("median of %v: got %v, want %v", c.values, got, c.want)
		}
	}
}

func TestFigureKeepsEveryRound(t *testing.T) {
	got, ok := Of([]float64{3.1234567, 1, 2})
	want := Figure{Median: 2, Lowest: 1, Highest: 3.1235, Rounds: []float64{3.1235, 1, 2}}
	if !ok || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v, want %v", got, ok, want)
	}
}

func TestDivisionByNothingIsNoFigure(t *testing.T) {
	for _, value := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if got, ok := Of([]float64{1, value}); ok {
			t.Errorf("%v: got %v, want none", value, got)
		}
	}
	if got, ok := Of(nil); ok {
		t.Errorf("got %v of no round", got)
	}
	two, _ := Of([]float64{1, 2})
	three, _ := Of([]float64{1, 2, 3})
	zero, _ := Of([]float64{1, 0})
	for name, other := range map[string]Figure{"more rounds": three, "zero": zero, "no round": {}} {
		if got, ok := two.By(other); ok {
			t.Errorf("%s: got %v, want none", name, got)
		}
	}
}

func TestRatioIsTheMedianOfTheRoundsRatios(t *testing.T) {
	a, _ := Of([]float64{10, 2, 30})
	b, _ := Of([]float64{10, 1, 10})
	got, ok := a.By(b)
	if want := []float64{1, 2, 3}; !ok || got.Median != 2 || !reflect.DeepEqual(got.Rounds, want) {
		t.Errorf("got %v, %v, want %v", got, ok, want)
	}
}

func TestDataIsReadAsItWasWritten(t *testing.T) {
	value, _ := Of([]float64{1, 2.5})
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
	if err := want.Write(path); err != nil {
		t.Fatal(err)
	}
	got, err := Read(path)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("got %+v, %v, want %+v", got, err, want)
	}
	if f, ok := got.Experiment(Throughput).Value("b", Late, 0, P99); !ok || f.Median != 1.75 {
		t.Errorf("got %v, %v, want 1.75", f, ok)
	}
	if f, ok := got.Experiment(Latency).Value("b", Late, 0, P99); ok {
		t.Errorf("got %v of an experiment that was not done", f)
	}
}
