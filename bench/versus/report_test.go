package versus

import (
	"errors"
	"flag"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

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
	r := newReport(contestants)
	for _, goroutines := range []int{manyGoroutines, 1} {
		for i, samples := range takeTurns(t, contestants, goroutines, rounds, slice) {
			for _, s := range samples {
				r.add(i, goroutines, s)
			}
		}
	}
	t.Logf("%d rounds of %v, five servers, %d CPUs, %s %s/%s\n\n%s\n%s",
		rounds, slice, runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH, r.figures(), r.ratios())
}

// asked reports whether -run names a measurement. Without it, none takes long.
func asked(name string) bool { return strings.Contains(flag.Lookup("test.run").Value.String(), name) }

// report is the measurement.
type report struct {
	contestants []contestant
	many, one   [][]sample // by contestant and round: with manyGoroutines, with one
}

func newReport(contestants []contestant) *report {
	n := len(contestants)
	return &report{contestants: contestants, many: make([][]sample, n), one: make([][]sample, n)}
}

func (r *report) add(i, goroutines int, s sample) {
	if goroutines == 1 {
		r.one[i] = append(r.one[i], s)
	} else {
		r.many[i] = append(r.many[i], s)
	}
}

// measurement is a column of the report.
type measurement struct {
	title   string
	samples func(*report) [][]sample
	value   func(*sample) float64
	more    bool // is better
	known   bool // on this system
}

func ofMany(r *report) [][]sample { return r.many }
func ofOne(r *report) [][]sample  { return r.one }

var (
	throughput  = measurement{"locks/s", ofMany, (*sample).locksPerSecond, true, true}
	cpuMany     = measurement{"cpu µs", ofMany, (*sample).cpuPerLock, false, cpuKnown}
	serversMany = measurement{"servers' cpu µs", ofMany, (*sample).serversPerLock, false, serverCPUKnown}
	allocsMany  = measurement{"allocs", ofMany, (*sample).allocsPerLock, false, true}
	bytesMany   = measurement{"B", ofMany, (*sample).bytesPerLock, false, true}
	p50One      = measurement{"p50 µs", ofOne, (*sample).p50, false, true}
	p99One      = measurement{"p99 µs", ofOne, (*sample).p99, false, true}
	cpuOne      = measurement{"cpu µs", ofOne, (*sample).cpuPerLock, false, cpuKnown}
	serversOne  = measurement{"servers' cpu µs", ofOne, (*sample).serversPerLock, false, serverCPUKnown}
)

// values returns a measurement of each contestant and round.
func (r *report) values(m measurement) [][]float64 {
	samples := m.samples(r)
	values := make([][]float64, len(samples))
	for i := range samples {
		for j := range samples[i] {
			values[i] = append(values[i], m.value(&samples[i][j]))
		}
	}
	return values
}

// figures returns a table of the medians.
func (r *report) figures() string {
	many := known(throughput, cpuMany, serversMany, allocsMany, bytesMany)
	one := known(p50One, p99One, cpuOne, serversOne)
	columns := slices.Concat(many, one)
	var table strings.Builder
	fmt.Fprintf(&table, "medians, per lock\t%d goroutines:%s1 goroutine:%s\n\t",
		manyGoroutines, strings.Repeat("\t", len(many)), strings.Repeat("\t", len(one)))
	for _, column := range columns {
		fmt.Fprintf(&table, "%s\t", column.title)
	}
	fmt.Fprintln(&table)
	for i, c := range r.contestants {
		fmt.Fprintf(&table, "%s\t", c.name)
		for _, column := range columns {
			fmt.Fprintf(&table, "%.*f\t", decimals(column), figures.Median(r.values(column)[i]))
		}
		fmt.Fprintln(&table)
	}
	return align(table.String(), tabwriter.AlignRight)
}

// known returns those of the measurements that there are on this system.
func known(columns ...measurement) []measurement {
	return slices.DeleteFunc(columns, func(m measurement) bool { return !m.known })
}

func decimals(m measurement) int {
	if m.title == throughput.title || m.title == bytesMany.title {
		return 0
	}
	return 1
}

// target is a ratio that this library is to reach, or a figure if it is compared with nothing.
type target struct {
	title string
	measurement
	to     kind // what ours is divided by; ours for nothing
	wanted string
}

var targets = []target{
	{"throughput", throughput, redsyncs, ">= 4.5"},
	{"throughput", throughput, limit, ">= 1.0"},
	{"client CPU", cpuMany, redsyncs, ""},
	{"client CPU", cpuMany, limit, "<= 4.5"},
	{"servers' CPU", serversMany, redsyncs, ""},
	{"servers' CPU", serversMany, limit, "<= 0.75"},
	{"p50, 1 goroutine", p50One, redsyncs, "<= 0.70"},
	{"p50, 1 goroutine", p50One, limit, "<= 1.0"},
	{"client CPU, 1 goroutine", cpuOne, redsyncs, ""},
	{"servers' CPU, 1 goroutine", serversOne, limit, ""},
	{"allocations", allocsMany, ours, "<= 7"},
	{"bytes allocated", bytesMany, ours, "<= 900"},
}

// ratios returns a table of ours divided by the best of the others: the median of the rounds,
// because a disturbance of a round affects both, with the lowest and the highest.
func (r *report) ratios() string {
	var table strings.Builder
	fmt.Fprintln(&table, "redquorum\tdivided by\tmedian\tlowest\thighest\ttarget")
	for _, target := range targets {
		if !target.known {
			continue
		}
		values := r.values(target.measurement)
		name, quotients := "(itself)", values[r.best(target, ours)]
		if target.to != ours {
			other := r.best(target, target.to)
			name, quotients = r.contestants[other].name, figures.Divide(quotients, values[other])
		}
		low, high := extremes(quotients)
		fmt.Fprintf(&table, "%s\t%s\t%.2f\t%.2f\t%.2f\t%s\n", target.title, name, figures.Median(quotients), low, high, target.wanted)
	}
	fmt.Fprintln(&table, "\nA ratio below 1 is less than the other's. The target is what this library aims at; missing it fails nothing.")
	return align(table.String(), 0)
}

// best returns the contestant of a kind with the best median.
func (r *report) best(t target, of kind) int {
	values := r.values(t.measurement)
	best := -1
	for i, c := range r.contestants {
		if c.kind == of && (best < 0 || (figures.Median(values[i]) > figures.Median(values[best])) == t.more) {
			best = i
		}
	}
	return best
}

// align turns cells that end with tabs into columns.
func align(cells string, flags uint) string {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', flags)
	_, err := table.Write([]byte(cells))
	if err = errors.Join(err, table.Flush()); err != nil {
		panic(err) // a strings.Builder never fails
	}
	return text.String()
}
