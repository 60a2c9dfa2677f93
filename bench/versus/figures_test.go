package versus

import (
	"context"
	"flag"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/bench/contention"
	"github.com/redquorum/redquorum/bench/load"
	"github.com/redquorum/redquorum/bench/versus/figures"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

var (
	figuresFile   = flag.String("figures", "", "the file that TestFigures writes; without it, TestFigures measures too little to be of use")
	figuresRounds = flag.Int("figures.rounds", 5, "rounds of TestFigures, and of what takes long 3 at most; an odd number gives a median that was measured")
	figuresSlice  = flag.Duration("figures.slice", 200*time.Millisecond, "how long each peer has in a round of TestFigures; for what needs many samples, 4 times as long")
)

// plan is the size of TestFigures.
type plan struct {
	rounds     int           // of what takes a moment
	longRounds int           // of what takes seconds
	slice      time.Duration // of a peer in a round
	goroutines []int
	nodes      []int
	contenders []string
	scenario   contention.Scenario // without its Mutex and Servers
	locks      []int               // held at once
	ttl        time.Duration       // of those locks
	hold       time.Duration
}

// longSlices is how many slices a sample takes from which percentiles are read.
const longSlices = 4

// fullPlan is the plan that the flags ask for.
func fullPlan() *plan {
	p := &plan{
		rounds:     *figuresRounds,
		longRounds: min(*figuresRounds, 3),
		slice:      *figuresSlice,
		goroutines: []int{1, 4, 16, 64, 256, 1024},
		nodes:      []int{3, 5, 7, 9},
		scenario: contention.Scenario{
			Processes: 8, Goroutines: 8, TTL: 10 * time.Second,
			WarmUp: *figuresSlice, Window: longSlices * *figuresSlice,
		},
		locks: []int{1000, 10_000, 100_000},
		ttl:   30 * time.Second,
		hold:  10 * time.Second, // they are renewed once
	}
	for _, c := range contenders {
		p.contenders = append(p.contenders, c.name)
	}
	return p
}

// smallPlan does everything once, as briefly as it goes.
func smallPlan() *plan {
	return &plan{
		rounds:     1,
		longRounds: 1,
		slice:      5 * time.Millisecond,
		goroutines: []int{1, 4},
		nodes:      []int{3},
		contenders: []string{"redquorum"},
		scenario: contention.Scenario{
			Processes: 2, Goroutines: 1, TTL: 10 * time.Second,
			WarmUp: 50 * time.Millisecond, Window: 100 * time.Millisecond,
		},
		locks: []int{100},
		ttl:   30 * time.Second,
		hold:  100 * time.Millisecond,
	}
}

// experiments are what docs/benchmarks.md shows.
var experiments = []struct {
	name    string
	measure func(*testing.T, *plan) figures.Experiment
}{
	{figures.Throughput, measureThroughput},
	{figures.Latency, measureLatency},
	{figures.Contention, measureContention},
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
	require.NoError(t, data.Write(path))
	_, err := figures.Read(path)
	require.NoError(t, err)
	t.Log(aims(&data))
}

// targets are the ratios that this library is to reach, to the best of the peers whose names begin
// like this; or figures, if they are compared with nothing. Missing one fails nothing.
var targets = []struct {
	experiment string
	column     figures.Column
	to         string
	wanted     string
}{
	{figures.Throughput, figures.Column{Size: manyGoroutines, Value: figures.LocksPerSecond, More: true}, "redsync", ">= 5"},
	{figures.Throughput, figures.Column{Size: manyGoroutines, Value: figures.LocksPerSecond, More: true}, "limit", ">= 1.0"},
	{figures.Throughput, figures.Column{Size: manyGoroutines, Value: figures.ClientCPU}, "limit", "<= 4.5"},
	{figures.Throughput, figures.Column{Size: manyGoroutines, Value: figures.ServerCPU}, "limit", "<= 0.75"},
	{figures.Throughput, figures.Column{Size: manyGoroutines, Value: figures.Allocations, Decimals: 1}, "", "<= 4"},
	{figures.Throughput, figures.Column{Size: manyGoroutines, Value: figures.Bytes}, "", "<= 700"},
	{figures.Latency, figures.Column{Value: figures.P50}, "redsync", "<= 0.55"},
	{figures.Latency, figures.Column{Value: figures.P50}, "limit", "<= 0.75"},
	{figures.Single, figures.Column{Size: 1, Value: figures.P50}, "redislock", "<= 1.0"},
	{figures.Single, figures.Column{Size: 1, Value: figures.P50}, "redsync", "<= 1.0"},
}

// aims has a line for each target.
func aims(d *figures.Data) string {
	var text strings.Builder
	for _, target := range targets {
		e := d.Experiment(target.experiment)
		got, of := target.column.Cell(e, "redquorum"), ""
		if target.to != "" {
			got, of = figures.Ratio(e, &target.column, target.to), ", divided by "+target.to
		}
		fmt.Fprintf(&text, "%s at %d: %s%s: %s, to be %s\n", target.experiment, max(target.column.Size, 1), target.column.Value, of, got, target.wanted)
	}
	return text.String()
}

// requireRows fails if a row of the experiment has no value.
func requireRows(t *testing.T, e *figures.Experiment) {
	t.Helper()
	assert.NotEmpty(t, e.Rows)
	for _, row := range e.Rows {
		assert.NotEmpty(t, row.Values, "%s: %q %d", row.Peer, row.State, row.Size)
	}
}

// values are what samples have, by name.
var values = map[string]struct {
	of    func(*sample) float64
	known bool
}{
	figures.LocksPerSecond: {(*sample).PerSecond, true},
	figures.Locks:          {func(s *sample) float64 { return float64(s.Done) }, true},
	figures.ClientCPU:      {(*sample).CPUEach, load.CPUKnown},
	figures.ServerCPU:      {(*sample).serversEach, serverCPUKnown},
	figures.Allocations:    {(*sample).AllocsEach, true},
	figures.Bytes:          {(*sample).BytesEach, true},
	figures.P50:            {func(s *sample) float64 { return s.Percentile(500) }, true},
	figures.P90:            {func(s *sample) float64 { return s.Percentile(900) }, true},
	figures.P99:            {func(s *sample) float64 { return s.Percentile(990) }, true},
	figures.P999:           {func(s *sample) float64 { return s.Percentile(999) }, true},
}

var (
	loadValues    = []string{figures.LocksPerSecond, figures.ClientCPU, figures.ServerCPU, figures.Allocations, figures.Bytes}
	latencyValues = []string{figures.P50, figures.P90, figures.P99, figures.P999, figures.Locks}
)

// newRow makes a row of the samples of all rounds.
func newRow(peer, state string, size int, samples []sample, names ...string) figures.Row {
	row := figures.Row{Peer: peer, State: state, Size: size, Values: make(map[string]figures.Figure)}
	for _, name := range names {
		if values[name].known {
			addFigure(&row, name, samples, values[name].of)
		}
	}
	return row
}

// addFigure adds a figure of all rounds, unless one of them was divided by nothing.
func addFigure[S any](row *figures.Row, name string, samples []S, of func(*S) float64) {
	var rounds []float64
	for i := range samples {
		rounds = append(rounds, of(&samples[i]))
	}
	if figure, ok := figures.Of(rounds); ok {
		row.Values[name] = figure
	}
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
		return strings.HasPrefix(e.name, "redsync") && e.name != "redsync-redigo" && e.name != "redsync-rueidis-tuned"
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
	e.Rows = contendInTurns(t, p.contenders, p.longRounds, s)
	return e
}

// environment returns what the measurement runs on.
func environment(t *testing.T) figures.Environment {
	t.Helper()
	locker, err := newLocker(contention.AddressesOf(redistest.Start(t, 1)))
	require.NoError(t, err)
	defer locker.Close()
	server := locker.Stats().Nodes[0]
	return figures.Environment{
		CPUs:     runtime.NumCPU(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Go:       runtime.Version(),
		Server:   server.Product + " " + server.Version,
		Commit:   commit(t.Context()),
	}
}

// commit returns the short hash of the library, or "" if git does not know it.
func commit(ctx context.Context) string {
	const length = "--abbrev=12"
	hash, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty", "--exclude=*", length).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(hash))
}
