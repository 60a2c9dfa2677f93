package versus

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/redquorum/redquorum/bench/contention"
	"github.com/redquorum/redquorum/bench/versus/figures"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

// experiments are what docs/benchmarks.md shows.
var experiments = []struct {
	name    string
	measure func(*testing.T, *plan) figures.Experiment
}{
	{figures.Throughput, measureThroughput},
	{figures.Latency, measureLatency},
	{figures.Contention, measureContention},
	{figures.Minority, measureMinority},
	{figures.Renewal, measureRenewal},
	{figures.Nodes, measureNodes},
	{figures.Single, measureSingle},
}

// TestFigures writes the data from which the charts and tables of docs/benchmarks.md are made. It
// asserts no figure: it fails when a lock fails.
//
//	go test -count=1 -timeout 30m -run 'TestFigures$' . -figures data.json
//
// Without -figures, it does everything at a size that takes a moment.
func TestFigures(t *testing.T) {
	p := fullPlan()
	if *figuresFile == "" {
		p = smallPlan()
	}
	data := figures.Data{Environment: environment(t)}
	for _, e := range experiments {
		t.Run(e.name, func(t *testing.T) {
			if e.name == figures.Contention && !contention.Supported {
				t.Skip("processes share no clock here")
			}
			experiment := e.measure(t, p)
			experiment.Name = e.name
			data.Experiments = append(data.Experiments, experiment)
			requireRows(t, &experiment)
		})
	}
	path := *figuresFile
	if path == "" {
		path = filepath.Join(t.TempDir(), "data.json")
	}
	if t.Failed() {
		return
	}
	if err := data.Write(path); err != nil {
		t.Fatal(err)
	}
	if _, err := figures.Read(path); err != nil {
		t.Error(err)
	}
}

// requireRows fails if a row of the experiment has no value.
func requireRows(t *testing.T, e *figures.Experiment) {
	t.Helper()
	for _, row := range e.Rows {
		if len(row.Values) == 0 {
			t.Errorf("%s: %q %d has no value", row.Peer, row.State, row.Size)
		}
	}
	if len(e.Rows) == 0 {
		t.Error("no row")
	}
}

// values are what samples have, by name.
var values = map[string]struct {
	of    func(*sample) float64
	known bool
}{
	figures.LocksPerSecond: {(*sample).locksPerSecond, true},
	figures.Locks:          {func(s *sample) float64 { return float64(s.locks) }, true},
	figures.Failed:         {func(s *sample) float64 { return float64(s.failed) }, true},
	figures.ClientCPU:      {(*sample).cpuPerLock, cpuKnown},
	figures.ServerCPU:      {(*sample).serversPerLock, serverCPUKnown},
	figures.Allocations:    {(*sample).allocsPerLock, true},
	figures.Bytes:          {(*sample).bytesPerLock, true},
	figures.P50:            {(*sample).p50, true},
	figures.P90:            {(*sample).p90, true},
	figures.P99:            {(*sample).p99, true},
	figures.P999:           {(*sample).p999, true},
}

var (
	loadValues    = []string{figures.LocksPerSecond, figures.ClientCPU, figures.ServerCPU, figures.Allocations, figures.Bytes}
	latencyValues = []string{figures.P50, figures.P90, figures.P99, figures.P999, figures.Locks}
)

// newRow makes a row of the samples of all rounds.
func newRow(peer, state string, size int, samples []sample, names ...string) figures.Row {
	row := figures.Row{Peer: peer, State: state, Size: size, Values: make(map[string]figures.Figure)}
	for _, name := range names {
		if !values[name].known {
			continue
		}
		var rounds []float64
		for i := range samples {
			rounds = append(rounds, values[name].of(&samples[i]))
		}
		if figure, ok := figures.Of(rounds); ok {
			row.Values[name] = figure
		}
	}
	return row
}

func measureThroughput(t *testing.T, p *plan) figures.Experiment {
	t.Helper()
	e := figures.Experiment{Setup: fmt.Sprintf("five servers, samples of %v", p.slice)}
	contestants := openPeers(t, startServers(t), peers, slices.Max(p.goroutines))
	for _, goroutines := range p.goroutines {
		for i, samples := range takeTurns(t, contestants, goroutines, p.rounds, p.slice) {
			e.Rows = append(e.Rows, newRow(contestants[i].name, "", goroutines, samples, loadValues...))
		}
	}
	return e
}

func measureLatency(t *testing.T, p *plan) figures.Experiment {
	t.Helper()
	slice := longSlices * p.slice
	e := figures.Experiment{Setup: fmt.Sprintf("five servers, one goroutine, samples of %v", slice)}
	contestants := openPeers(t, startServers(t), peers, 1)
	for i, samples := range takeTurns(t, contestants, 1, p.rounds, slice) {
		names := append([]string{figures.ClientCPU, figures.ServerCPU}, latencyValues...)
		e.Rows = append(e.Rows, newRow(contestants[i].name, "", 0, samples, names...))
	}
	return e
}

func measureSingle(t *testing.T, p *plan) figures.Experiment {
	t.Helper()
	e := figures.Experiment{Setup: fmt.Sprintf("one server, samples of %v", p.slice)}
	contestants := openPeers(t, redistest.Start(t, 1), slices.Concat(peers, singlePeers), manyGoroutines)
	for _, goroutines := range []int{1, manyGoroutines} {
		for i, samples := range takeTurns(t, contestants, goroutines, p.rounds, p.slice) {
			names := loadValues
			if goroutines == 1 {
				names = append([]string{figures.P50}, loadValues...)
			}
			e.Rows = append(e.Rows, newRow(contestants[i].name, "", goroutines, samples, names...))
		}
	}
	return e
}

// nodesPeers are ours, the two redsyncs that are best, and the limit.
func nodesPeers() []entry {
	return slices.DeleteFunc(slices.Clone(peers), func(e entry) bool {
		return e.kind == redsyncs && e.name != "redsync-redigo" && e.name != "redsync-rueidis-tuned"
	})
}

func measureNodes(t *testing.T, p *plan) figures.Experiment {
	t.Helper()
	e := figures.Experiment{Setup: fmt.Sprintf("%d goroutines, p50 with one; samples of %v", manyGoroutines, p.slice)}
	var contestants []contestant // on all numbers of servers, which take turns, too
	for _, n := range p.nodes {
		contestants = append(contestants, openPeers(t, redistest.Start(t, n), nodesPeers(), manyGoroutines)...)
	}
	many := takeTurns(t, contestants, manyGoroutines, p.rounds, p.slice)
	one := takeTurns(t, contestants, 1, p.rounds, p.slice)
	for i, c := range contestants {
		row := newRow(c.name, "", len(c.servers), many[i], loadValues...)
		row.Values[figures.P50] = newRow(c.name, "", 0, one[i], figures.P50).Values[figures.P50]
		e.Rows = append(e.Rows, row)
	}
	return e
}

func measureContention(t *testing.T, p *plan) figures.Experiment {
	t.Helper()
	s := p.scenario
	s.Servers = startServers(t)
	e := figures.Experiment{Setup: fmt.Sprintf("five servers, %d processes of %d goroutines, samples of %v after %v",
		s.Processes, s.Goroutines, s.Window, s.WarmUp)}
	r := contendInTurns(t, p.contenders, p.longRounds, s)
	for i, name := range r.names {
		row := figures.Row{Peer: name, Values: make(map[string]figures.Figure)}
		for value, column := range contendedValues {
			if figure, ok := figures.Of(r.values(i, column)); ok {
				row.Values[value] = figure
			}
		}
		e.Rows = append(e.Rows, row)
	}
	return e
}

// contendedValues are what results have, by name.
var contendedValues = map[string]contentionColumn{
	figures.LocksPerSecond:    acquisitions,
	figures.ChangesPerSecond:  goroutineChange,
	figures.MeanWait:          meanWait,
	figures.P50Wait:           p50Wait,
	figures.P99Wait:           p99Wait,
	figures.LongestWait:       maxWait,
	figures.CommandsPerChange: perChange,
	figures.LeastShare:        processShare,
}

func TestRowHasAFigureOfAllSamples(t *testing.T) {
	samples := []sample{
		{locks: 10, elapsed: time.Second}, {locks: 30, elapsed: time.Second}, {locks: 20, elapsed: time.Second},
	}
	row := newRow("peer", "state", 3, samples, figures.LocksPerSecond)
	got := row.Values[figures.LocksPerSecond]
	if got.Median != 20 || got.Lowest != 10 || got.Highest != 30 || len(got.Rounds) != 3 || row.Size != 3 {
		t.Errorf("got %+v", row)
	}
}
