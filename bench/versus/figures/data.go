// Package figures is what `make versus` has measured, as data: [Data] goes to one JSON file, from
// which the charts and the tables of docs/benchmarks.md are made.
package figures

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
)

// The experiments.
const (
	Throughput = "throughput" // by goroutines
	Latency    = "latency"    // of one goroutine
	Contention = "contention" // for one name
	Renewal    = "renewal"    // by locks held
	Nodes      = "nodes"      // by servers
	Single     = "single"     // on one server

	Held   = "held"   // a million locks of one process, by TTL
	Crowds = "crowds" // thousands of waiters, by processes
)

// The units are part of the names of the values. A lock is a lock and its unlock.
const (
	LocksPerSecond = "locks/s"
	Locks          = "locks" // how many were measured, in all
	ClientCPU      = "client CPU µs/lock"
	ServerCPU      = "servers' CPU µs/lock"
	Allocations    = "allocations/lock"
	Bytes          = "bytes/lock"
	P50            = "p50 µs"
	P90            = "p90 µs"
	P99            = "p99 µs"
	P999           = "p99.9 µs"

	ChangesPerSecond  = "changes/s" // of the goroutine that holds the name
	MeanWait          = "mean wait ms"
	P50Wait           = "p50 wait ms"
	P99Wait           = "p99 wait ms"
	LongestWait       = "longest wait ms"
	CommandsPerChange = "commands/change"
	LeastShare        = "least share of a process" // 1 is an equal share

	CoreShare           = "% of a core"
	RenewalsPerSecond   = "renewals/s"
	ClientCPUPerRenewal = "client CPU µs/renewal"
	ServerCPUPerRenewal = "servers' CPU µs/renewal"
	LostLocks           = "locks lost"
	ServerCoreShare     = "servers' % of a core"
	CallsPerSecond      = "calls/s" // of all servers; a call renews up to 256 locks
	HeapPerLock         = "bytes of heap/lock"
	LongestPause        = "longest pause for the garbage collector ms"
	CollectorShare      = "garbage collector, % of a core"
)

// Data is one run.
type Data struct {
	Environment Environment  `json:"environment"`
	Experiments []Experiment `json:"experiments"`
}

// Environment is what the run ran on. It names no host and no date.
type Environment struct {
	CPUs     int    `json:"cpus"` // of clients and servers together
	Platform string `json:"platform"`
	Go       string `json:"go"`
	Server   string `json:"server"`
	Commit   string `json:"commit,omitempty"` // of the library, with "-dirty" if files had changed
}

// Experiment is one question, put to several peers in turns.
type Experiment struct {
	Name  string `json:"name"`
	Setup string `json:"setup"` // as a sentence without its full stop
	Rows  []Row  `json:"rows"`
}

// Row is what one peer reached at one point of an experiment.
type Row struct {
	Peer   string            `json:"peer"`
	State  string            `json:"state,omitempty"` // TTL; processes
	Size   int               `json:"size,omitempty"`  // goroutines, servers, locks held or waiters
	Values map[string]Figure `json:"values"`
}

// Experiment returns the experiment of that name, or an empty one.
func (d *Data) Experiment(name string) *Experiment {
	for i := range d.Experiments {
		if d.Experiments[i].Name == name {
			return &d.Experiments[i]
		}
	}
	return &Experiment{Name: name}
}

// Value returns a value of a row, and whether there is one.
func (e *Experiment) Value(peer, state string, size int, value string) (Figure, bool) {
	for _, row := range e.Rows {
		if row.Peer == peer && row.State == state && row.Size == size {
			f, found := row.Values[value]
			return f, found
		}
	}
	return Figure{}, false
}

// Read reads a file that [Data.Write] wrote.
func Read(path string) (*Data, error) { return read(path, new(Data)) }

// Write writes the data to a file, with a line for each row.
func (d *Data) Write(path string) error {
	return write(path, d, `"experiments":`, `{"name":`, `{"peer":`)
}

func read[T any](path string, to *T) (*T, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(to); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return to, nil
}

// write begins a line before each of these texts, so that files can be compared.
func write(path string, from any, lines ...string) error {
	text, err := json.Marshal(from)
	if err != nil {
		return err
	}
	for _, before := range lines {
		text = bytes.ReplaceAll(text, []byte(before), []byte("\n"+before))
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

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
