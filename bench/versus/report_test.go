package versus

import (
	"flag"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/bench/contention"
	"github.com/redquorum/redquorum/bench/versus/figures"
)

var (
	rounds = flag.Int("rounds", 7, "rounds of TestReport; an odd number gives a median that was measured")
	slice  = flag.Duration("slice", 250*time.Millisecond, "how long each peer has in a round of TestReport")
)

// TestReport measures all peers in turns and prints medians and ratios. It asserts no figure: it
// fails when a lock fails. Unless -run names it, its one round is too short to be of use.
//
//	go test -run TestReport -v . -rounds 7 -slice 250ms
func TestReport(t *testing.T) {
	rounds, slice := *rounds, *slice
	if !asked("Report") {
		rounds, slice = 1, 5*time.Millisecond
	}
	contestants := openPeers(t, startServers(t), peers, manyGoroutines)
	e := &figures.Experiment{}
	for _, goroutines := range []int{manyGoroutines, 1} {
		for i, samples := range takeTurns(t, contestants, goroutines, rounds, slice) {
			names := loadValues
			if goroutines == 1 {
				names = append([]string{figures.P50, figures.P99}, loadValues...)
			}
			e.Rows = append(e.Rows, newRow(contestants[i].name, "", goroutines, samples, names...))
		}
	}
	t.Logf("%d rounds of %v, five servers, %d CPUs, %s %s/%s\n\n%s\n%s\n%s",
		rounds, slice, runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH,
		figures.Table(e, fmt.Sprintf("per lock, %d goroutines", manyGoroutines), []figures.Column{
			throughput, cpuMany, serversMany, allocsMany, bytesMany,
		}), figures.Table(e, "per lock, 1 goroutine", []figures.Column{p50One, p99One, cpuOne, serversOne}), aims(e))
}

// asked reports whether -run names a measurement. Without it, none takes long.
func asked(name string) bool { return strings.Contains(flag.Lookup("test.run").Value.String(), name) }

// The columns of the report.
var (
	throughput  = figures.Column{Title: "locks/s", Size: manyGoroutines, Value: figures.LocksPerSecond, More: true}
	cpuMany     = figures.Column{Title: "cpu µs", Size: manyGoroutines, Value: figures.ClientCPU, Decimals: 1}
	serversMany = figures.Column{Title: "servers' cpu µs", Size: manyGoroutines, Value: figures.ServerCPU, Decimals: 1}
	allocsMany  = figures.Column{Title: "allocs", Size: manyGoroutines, Value: figures.Allocations, Decimals: 1}
	bytesMany   = figures.Column{Title: "B", Size: manyGoroutines, Value: figures.Bytes}
	p50One      = figures.Column{Title: "p50 µs", Size: 1, Value: figures.P50, Decimals: 1}
	p99One      = figures.Column{Title: "p99 µs", Size: 1, Value: figures.P99, Decimals: 1}
	cpuOne      = figures.Column{Title: "cpu µs", Size: 1, Value: figures.ClientCPU, Decimals: 1}
	serversOne  = figures.Column{Title: "servers' cpu µs", Size: 1, Value: figures.ServerCPU, Decimals: 1}
)

// targets are the ratios that this library is to reach, to the best of the peers whose names begin
// like this; or figures, if they are compared with nothing.
var targets = []struct {
	column figures.Column
	to     string
	wanted string
}{
	{throughput, "redsync", ">= 4.5"},
	{throughput, "limit", ">= 1.0"},
	{cpuMany, "limit", "<= 4.5"},
	{serversMany, "limit", "<= 0.75"},
	{p50One, "redsync", "<= 0.70"},
	{p50One, "limit", "<= 1.0"},
	{allocsMany, "", "<= 7"},
	{bytesMany, "", "<= 900"},
}

// aims has a line for each target.
func aims(e *figures.Experiment) string {
	var text strings.Builder
	for _, target := range targets {
		got, of := target.column.Cell(e, "redquorum"), ""
		if target.to != "" {
			got, of = figures.Ratio(e, &target.column, target.to), ", divided by "+target.to
		}
		fmt.Fprintf(&text, "%s, %d goroutines%s: %s, to be %s\n", target.column.Title, target.column.Size, of, got, target.wanted)
	}
	return text.String() + "It is what this library aims at; missing it fails nothing."
}

// BenchmarkVersus runs every peer on the same servers, one after the other. For ratios, TestReport
// is better, because it takes turns. An operation is a lock and its unlock.
func BenchmarkVersus(b *testing.B) {
	contestants := openPeers(b, startServers(b), peers, manyGoroutines)
	for _, goroutines := range []int{1, manyGoroutines} {
		for i := range contestants {
			c := &contestants[i]
			b.Run(fmt.Sprintf("peer=%s/goroutines=%d", c.name, goroutines), func(b *testing.B) {
				b.ReportAllocs()
				b.ResetTimer()
				s, err := measure(b.Context(), c, goroutines, newQuota(b.N))
				require.NoError(b, err)
				b.ReportMetric(float64(s.elapsed)/float64(b.N), "ns/op") // without the GC before
				b.ReportMetric(s.locksPerSecond(), "locks/s")
				if contention.Supported {
					b.ReportMetric(s.cpuPerLock(), "cpu-µs/lock")
				}
				if serverCPUKnown {
					b.ReportMetric(s.serversPerLock(), "server-cpu-µs/lock")
				}
				if goroutines == 1 {
					b.ReportMetric(s.percentile(500), "p50-µs")
					b.ReportMetric(s.percentile(990), "p99-µs")
				}
			})
		}
	}
}
