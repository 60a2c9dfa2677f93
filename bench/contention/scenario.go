// Package contention measures mutexes over Redis under contention for one name: real processes,
// each with goroutines that lock, unlock and lock again. The processes run this same program;
// [Play] turns it into a worker.
//
// Each goroutine records when it asked, acquired and released, by CLOCK_MONOTONIC, which all
// processes of one machine share. The figures follow from that, and so does the proof of exclusion:
// a measurement in which two held the name at once fails, as the judge of package history says.
//
// Commands are counted where the clients write them to their connections ([Setup.Dial]), not by the
// servers. INFO counts what a script calls like what a client sends (commandstats and
// total_commands_processed both, Redis 7.0), and MONITOR slows what is measured.
package contention

import (
	"crypto/rand"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/child"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

// Scenario is one measurement: goroutines of several processes want one name, again and again, or
// one of a few.
type Scenario struct {
	Mutex      string // its name in the table given to [Play]
	Servers    []*redistest.Server
	Processes  int
	Goroutines int // of each process
	Names      int // the goroutines of a process want them in turn, each always the same; 0 is one
	TTL        time.Duration
	WarmUp     time.Duration // before the window
	Window     time.Duration // measured
}

// lead is the time from the order to begin until workers first ask for locks. By then, all of them
// have the order.
const lead = 50 * time.Millisecond

// Run measures, and leaves the servers empty. The test ends if two held the name at once, or if a
// process, a server or a lock fails.
func (s *Scenario) Run(tb testing.TB) *Result {
	tb.Helper()
	all := startWorkers(tb, s.Mutex, s.Processes, task{
		Name: "contention/" + rand.Text(), Names: max(s.Names, 1),
		Setup: Setup{Addresses: AddressesOf(s.Servers), Goroutines: s.Goroutines, TTL: s.TTL},
	})
	from := now().Add(lead)
	times := run{From: from, Begin: from.Add(s.WarmUp), End: from.Add(s.WarmUp + s.Window)}
	for _, p := range all {
		tell(tb, p, times)
	}
	time.Sleep(times.End.Sub(now()))
	var reports []*report
	for _, p := range all {
		reports = append(reports, readReport(tb, p, s.Goroutines))
		require.Zero(tb, p.Wait(tb))
	}
	for _, server := range s.Servers {
		require.NoError(tb, server.Clear())
	}
	result, err := newResult(reports, &times, max(s.Names, 1))
	require.NoError(tb, err)
	return result
}

// startWorkers starts n processes, and returns once all are connected.
func startWorkers(tb testing.TB, mutex string, n int, t task) (all []*child.Process) {
	tb.Helper()
	text, err := json.Marshal(t)
	require.NoError(tb, err)
	for range n {
		all = append(all, child.Start(tb, child.Command(mutex, string(text))))
	}
	for _, p := range all {
		parse(tb, p.Next(tb))
	}
	return all
}

func tell(tb testing.TB, p *child.Process, times run) {
	tb.Helper()
	text, err := json.Marshal(times)
	require.NoError(tb, err)
	require.NoError(tb, p.Tell(string(text)))
}

func parse(tb testing.TB, line string) (m message) {
	tb.Helper()
	require.NoError(tb, json.Unmarshal([]byte(line), &m), line)
	return m
}

func readReport(tb testing.TB, p *child.Process, goroutines int) *report {
	tb.Helper()
	turns := make([][]turn, goroutines)
	for {
		m := parse(tb, p.Next(tb))
		if m.Report != nil {
			m.Report.Turns = turns
			return m.Report
		}
		turns[m.Goroutine] = append(turns[m.Goroutine], m.Turns...)
	}
}

// AddressesOf returns the host:port of each server.
func AddressesOf(servers []*redistest.Server) []string {
	var addresses []string
	for _, server := range servers {
		addresses = append(addresses, server.Addr())
	}
	return addresses
}
