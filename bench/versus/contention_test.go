package versus

import (
	"context"
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/bench/contention"
	"github.com/redquorum/redquorum/bench/load"
	"github.com/redquorum/redquorum/bench/versus/figures"
)

// contenders are compared under contention for one name. The first is ours. The drivers are those
// of the peers. redsync waits by asking again, so its pause matters: its own, or 1 or 5 ms.
var contenders = []struct {
	name string
	open contention.Opener
}{
	{"redquorum", contention.OpenRedquorum},
	{"redsync-redigo", contend(openRedigo, 0)},
	{"redsync-redigo-1ms", contend(openRedigo, time.Millisecond)},
	{"redsync-redigo-5ms", contend(openRedigo, 5*time.Millisecond)},
	{"redsync-rueidis", contend(openRueidis, 0)},
	{"redsync-rueidis-1ms", contend(openRueidis, time.Millisecond)},
	{"redsync-rueidis-5ms", contend(openRueidis, 5*time.Millisecond)},
}

// TestMain is also the main function of the processes that contend.
func TestMain(m *testing.M) {
	openers := make(map[string]contention.Opener)
	for _, c := range contenders {
		openers[c.name] = c.open
	}
	contention.Play(openers)
	os.Exit(m.Run())
}

// contend makes a contender of redsync over a driver. A pause of 0 is redsync's own: 50 to 250 ms,
// at random.
func contend(open func(setup) (peer, error), pause time.Duration) contention.Opener {
	return func(_ context.Context, s contention.Setup) (contention.Mutex, error) {
		opened, err := open(setup{addresses: s.Addresses, goroutines: s.Goroutines, dial: s.Dial})
		if err != nil {
			return nil, err
		}
		c := opened.(*redsyncPeer)
		// Only the context ends a wait.
		c.options = []redsync.Option{redsync.WithExpiry(s.TTL), redsync.WithTries(math.MaxInt)}
		if pause > 0 {
			c.options = append(c.options, redsync.WithRetryDelay(pause))
		}
		return c, nil
	}
}

var contentionPeers = flag.String("contention.peers", "", "which peers take part in TestContention, separated by commas (all)")

// TestContention measures what TestFigures has of one name, at any number of processes and
// goroutines, and prints medians and ratios. It asserts no figure: it fails when two held the name
// at once, or when a lock fails. It takes minutes, so it runs only if -run names it:
//
//	go test -count=1 -run 'TestContention$/8_of_8' -v -timeout 30m . -figures.slice 250ms
func TestContention(t *testing.T) {
	if !asked("Contention") {
		t.Skip("a measurement that takes minutes: -run TestContention asks for it")
	}
	if !contention.Supported {
		t.Skip("processes share no clock here")
	}
	p := fullPlan()
	p.contenders = contentionNames(t)
	for _, processes := range []int{1, 2, 8, 16} {
		for _, goroutines := range []int{1, 8} {
			t.Run(fmt.Sprintf("%d of %d", processes, goroutines), func(t *testing.T) {
				p.scenario.Processes, p.scenario.Goroutines = processes, goroutines
				e := measureContention(t, p)
				t.Logf("%s\n\n%s\n%s", e.Setup, figures.TableOfPeers(&e, "", contendedColumns()), figures.Table(&e, "", contendedColumns()))
			})
		}
	}
}

// asked reports whether -run names a measurement. Without it, none takes long.
func asked(name string) bool { return strings.Contains(flag.Lookup("test.run").Value.String(), name) }

// contentionNames returns the contenders that take part.
func contentionNames(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, c := range contenders {
		if *contentionPeers == "" || slices.Contains(strings.Split(*contentionPeers, ","), c.name) {
			names = append(names, c.name)
		}
	}
	require.NotEmpty(t, names, "no peer is called %q", *contentionPeers)
	return names
}

// contended are what results have, by name.
var contended = []struct {
	name string
	more bool // is better
	of   func(*contention.Result) float64
}{
	{figures.LocksPerSecond, true, (*contention.Result).AcquisitionsPerSecond},
	{figures.ChangesPerSecond, true, (*contention.Result).GoroutineChangesPerSecond},
	{figures.MeanWait, false, func(r *contention.Result) float64 { return load.Millis(r.MeanWait()) }},
	{figures.P50Wait, false, waitOf(50)},
	{figures.P99Wait, false, waitOf(99)},
	{figures.LongestWait, false, waitOf(100)},
	{"commands/lock", false, (*contention.Result).CommandsPerAcquisition},
	{figures.CommandsPerChange, false, (*contention.Result).CommandsPerGoroutineChange},
	{figures.LeastShare, true, func(r *contention.Result) float64 { return r.MinProcessShare }},
}

func waitOf(percent int) func(*contention.Result) float64 {
	return func(r *contention.Result) float64 { return load.Millis(r.Wait(percent)) }
}

func contendedColumns() (columns []figures.Column) {
	for _, c := range contended {
		columns = append(columns, figures.Column{Title: c.name, Value: c.name, Decimals: 2, More: c.more})
	}
	return columns
}

// contendInTurns lets every contender run the scenario in every round. What was divided by nothing
// in a round is left out.
func contendInTurns(t *testing.T, names []string, rounds int, s contention.Scenario) (rows []figures.Row) {
	t.Helper()
	results := make([][]*contention.Result, len(names))
	for round := range rounds {
		for turn := range names {
			i := (turn + round) % len(names) // none always follows the same one
			s.Mutex = names[i]
			results[i] = append(results[i], s.Run(t))
		}
	}
	for i, name := range names {
		row := figures.Row{Peer: name, Values: make(map[string]figures.Figure)}
		for _, c := range contended {
			addFigure(&row, c.name, results[i], func(result **contention.Result) float64 { return c.of(*result) })
		}
		rows = append(rows, row)
	}
	return rows
}

// TestEveryContenderExcludes does what TestContention does, at a size that takes a moment. Two that
// hold the name at once are an error of Run.
func TestEveryContenderExcludes(t *testing.T) {
	if !contention.Supported {
		t.Skip("processes share no clock here")
	}
	servers := startServers(t)
	for _, c := range contenders {
		t.Run(c.name, func(t *testing.T) {
			s := contention.Scenario{
				Mutex: c.name, Servers: servers, Processes: 2, Goroutines: 2, TTL: 10 * time.Second, WarmUp: 50 * time.Millisecond,
			}
			for s.Window = 250 * time.Millisecond; ; s.Window *= 4 { // somebody locks in it, unless the machine is busy
				r := s.Run(t)
				require.Zero(t, r.UnlockErrors, r.UnlockError)
				require.GreaterOrEqual(t, r.Commands, uint64(len(servers)*r.Acquisitions), "one per server and lock, or more")
				if r.Acquisitions > 0 {
					return
				}
				require.Less(t, s.Window, time.Minute, "nobody locks")
			}
		})
	}
}

func TestContenderGivesUpWithItsContextOnly(t *testing.T) {
	servers := startServers(t)
	for _, server := range servers {
		_, err := server.Do("SET", "held", "by somebody")
		require.NoError(t, err)
	}
	for _, c := range contenders[1:] {
		mutex, err := c.open(t.Context(), contention.Setup{Addresses: contention.AddressesOf(servers), Goroutines: 1, TTL: time.Second})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		_, err = mutex.Lock(ctx, "held")
		require.Error(t, err, c.name)
		assert.Error(t, ctx.Err(), "%s: Lock ended with %v before its context", c.name, err)
		cancel()
		assert.NoError(t, mutex.Close())
	}
}
