package versus

import (
	"flag"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/redquorum/redquorum/bench/contention"
	"github.com/redquorum/redquorum/bench/versus/figures"
)

var (
	contentionFlags  = contention.NewFlags(flag.CommandLine)
	contentionRounds = flag.Int("contention.rounds", 3, "rounds of TestContention; an odd number gives a median that was measured")
	contentionPeers  = flag.String("contention.peers", "", "which peers take part in TestContention, separated by commas (all)")
)

// TestContention lets every peer lock one name from many goroutines of many processes, in turns,
// and prints medians and ratios. It asserts no figure: it fails when two held the name at once,
// or when a lock fails. It takes 8 minutes with the defaults, so it runs only if -run names it.
//
//	go test -count=1 -run TestContention -v -timeout 30m . -contention.processes 1,2,8,16 -contention.goroutines 1,8
func TestContention(t *testing.T) {
	if !asked("Contention") {
		t.Skip("a measurement that takes minutes: -run TestContention asks for it")
	}
	if !contention.Supported {
		t.Skip("processes share no clock here")
	}
	f := contentionFlags
	t.Logf("medians of %d rounds of %v after %v, hold %v, five servers, %d CPUs, %s %s/%s",
		*contentionRounds, f.Window, f.WarmUp, f.Hold, runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	servers := startServers(t)
	names := contentionNames(t)
	for _, processes := range f.Processes {
		for _, goroutines := range f.Goroutines {
			r := contendInTurns(t, names, *contentionRounds, contention.Scenario{
				Servers: servers, Processes: processes, Goroutines: goroutines,
				Hold: f.Hold, TTL: f.TTL, WarmUp: f.WarmUp, Window: f.Window,
			})
			t.Logf("%d processes of %d goroutines\n\n%s\n%s\n%s", processes, goroutines, r.figures(), r.ratios(), r.remarks())
		}
	}
}

// contendInTurns lets every contender run the scenario in every round.
func contendInTurns(t *testing.T, names []string, rounds int, s contention.Scenario) *contentionReport {
	t.Helper()
	r := &contentionReport{names: names, results: make([][]*contention.Result, len(names))}
	for round := range rounds {
		for turn := range names {
			i := (turn + round) % len(names) // none always follows the same one
			s.Mutex = names[i]
			result, err := s.Run()
			if err != nil {
				t.Fatalf("%s: %v", names[i], err)
			}
			r.results[i] = append(r.results[i], result)
		}
	}
	return r
}

// contentionNames returns the contenders that take part.
func contentionNames(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, c := range contenders {
		if *contentionPeers == "" || slices.Contains(strings.Split(*contentionPeers, ","), c.name) {
			names = append(names, c.name)
		}
	}
	if len(names) == 0 {
		t.Fatalf("no peer is called %q", *contentionPeers)
	}
	return names
}

// contentionReport is the measurement with one number of processes and goroutines.
type contentionReport struct {
	names   []string
	results [][]*contention.Result // by contender and round
}

// contentionColumn is a figure of a result.
type contentionColumn struct {
	title    string
	decimals int
	value    func(*contention.Result) float64
}

var (
	acquisitions    = contentionColumn{"locks/s", 0, (*contention.Result).AcquisitionsPerSecond}
	goroutineChange = contentionColumn{"goroutine changes/s", 0, (*contention.Result).GoroutineChangesPerSecond}
	processChange   = contentionColumn{"process changes/s", 0, (*contention.Result).ProcessChangesPerSecond}
	meanWait        = contentionColumn{"mean wait ms", 1, func(r *contention.Result) float64 { return millis(r.MeanWait()) }}
	p50Wait         = contentionColumn{"p50", 1, func(r *contention.Result) float64 { return millis(r.Wait(50)) }}
	p99Wait         = contentionColumn{"p99", 1, func(r *contention.Result) float64 { return millis(r.Wait(99)) }}
	maxWait         = contentionColumn{"max", 1, func(r *contention.Result) float64 { return millis(r.Wait(100)) }}
	p50Gap          = contentionColumn{"p50 gap ms", 2, func(r *contention.Result) float64 { return millis(r.Gap(50)) }}
	perLock         = contentionColumn{"commands/lock", 1, (*contention.Result).CommandsPerAcquisition}
	perChange       = contentionColumn{"commands/goroutine change", 1, (*contention.Result).CommandsPerGoroutineChange}
	perProcess      = contentionColumn{"commands/process change", 1, (*contention.Result).CommandsPerProcessChange}
	processShare    = contentionColumn{"min process share", 2, func(r *contention.Result) float64 { return r.MinProcessShare }}
	goroutineShare  = contentionColumn{"min goroutine share", 2, func(r *contention.Result) float64 { return r.MinGoroutineShare }}
)

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// values returns a column of a contender, by round.
func (r *contentionReport) values(i int, column contentionColumn) []float64 {
	var values []float64
	for _, result := range r.results[i] {
		values = append(values, column.value(result))
	}
	return values
}

// figures returns a table of the medians, with "-" for a division by nothing.
func (r *contentionReport) figures() string {
	columns := []contentionColumn{
		acquisitions, goroutineChange, processChange, meanWait, p50Wait, p99Wait, maxWait, p50Gap,
		perLock, perChange, perProcess, processShare, goroutineShare,
	}
	var table strings.Builder
	fmt.Fprint(&table, "\t")
	for _, column := range columns {
		fmt.Fprintf(&table, "%s\t", column.title)
	}
	fmt.Fprintln(&table)
	for i, name := range r.names {
		fmt.Fprintf(&table, "%s\t", name)
		for _, column := range columns {
			fmt.Fprintf(&table, "%s\t", figure(figures.Median(r.values(i, column)), column.decimals))
		}
		fmt.Fprintln(&table)
	}
	return align(table.String(), tabwriter.AlignRight)
}

func figure(value float64, decimals int) string {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return "-"
	}
	return fmt.Sprintf("%.*f", decimals, value)
}

// ratios returns a table of the first contender divided by each of the others: the median of the
// rounds, because a disturbance of a round affects both, with the lowest and the highest.
func (r *contentionReport) ratios() string {
	columns := []contentionColumn{acquisitions, goroutineChange, processChange, meanWait, p99Wait, maxWait, perLock, perChange}
	var table strings.Builder
	fmt.Fprintf(&table, "%s divided by\t", r.names[0])
	for _, column := range columns {
		fmt.Fprintf(&table, "%s\t", column.title)
	}
	fmt.Fprintln(&table)
	for i, name := range r.names[1:] {
		fmt.Fprintf(&table, "%s\t", name)
		for _, column := range columns {
			quotients := figures.Divide(r.values(0, column), r.values(i+1, column))
			low, high := extremes(quotients)
			fmt.Fprintf(&table, "%s (%s-%s)\t", figure(figures.Median(quotients), 2), figure(low, 2), figure(high, 2))
		}
		fmt.Fprintln(&table)
	}
	return align(table.String(), tabwriter.AlignRight)
}

// remarks reports what is not in the tables, summed over all rounds.
func (r *contentionReport) remarks() string {
	var text strings.Builder
	for i, name := range r.names {
		unfinished, unlockErrors, keys, last := 0, 0, 0, ""
		counters := make(map[string]uint64)
		for _, result := range r.results[i] {
			unfinished, unlockErrors, keys = unfinished+result.Unfinished, unlockErrors+result.UnlockErrors, keys+result.KeysLeft
			if result.UnlockErrors > 0 {
				last = result.UnlockError
			}
			for counter, n := range result.Counters {
				counters[counter] += n
			}
		}
		fmt.Fprintf(&text, "%s: %d waits unfinished, %d unlocks failed, %d keys left", name, unfinished, unlockErrors, keys)
		if last != "" {
			fmt.Fprintf(&text, " (%s)", last)
		}
		if len(counters) > 0 {
			fmt.Fprintf(&text, "; counted by itself: %v", counters)
		}
		fmt.Fprintln(&text)
	}
	return text.String()
}
