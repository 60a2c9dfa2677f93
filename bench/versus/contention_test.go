package versus

import (
	"context"
	"flag"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/bench/contention"
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

var (
	contentionWarmUp = flag.Duration("contention.warmup", 500*time.Millisecond, "how long TestContention runs before its window")
	contentionWindow = flag.Duration("contention.window", 2*time.Second, "how long TestContention measures")
	contentionRounds = flag.Int("contention.rounds", 3, "rounds of TestContention; an odd number gives a median that was measured")
	contentionPeers  = flag.String("contention.peers", "", "which peers take part in TestContention, separated by commas (all)")
)

// contendedTTL is the time to live of the name that they contend for.
const contendedTTL = 10 * time.Second

// TestContention lets every peer lock one name from many goroutines of many processes, in turns,
// and prints medians and ratios. It asserts no figure: it fails when two held the name at once,
// or when a lock fails. It takes 8 minutes with the defaults, so it runs only if -run names it:
//
//	go test -count=1 -run 'TestContention$/8_of_8' -v -timeout 30m .
func TestContention(t *testing.T) {
	if !asked("Contention") {
		t.Skip("a measurement that takes minutes: -run TestContention asks for it")
	}
	if !contention.Supported {
		t.Skip("processes share no clock here")
	}
	t.Logf("medians of %d rounds of %v after %v, five servers, %d CPUs, %s %s/%s",
		*contentionRounds, *contentionWindow, *contentionWarmUp, runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	servers := startServers(t)
	names := contentionNames(t)
	for _, processes := range []int{1, 2, 8, 16} {
		for _, goroutines := range []int{1, 8} {
			t.Run(fmt.Sprintf("%d of %d", processes, goroutines), func(t *testing.T) {
				r := contendInTurns(t, names, *contentionRounds, contention.Scenario{
					Servers: servers, Processes: processes, Goroutines: goroutines,
					TTL: contendedTTL, WarmUp: *contentionWarmUp, Window: *contentionWindow,
				})
				t.Logf("\n\n%s\n%s", figures.Table(&figures.Experiment{Rows: r.rows()}, "", contendedColumns()), r.remarks())
			})
		}
	}
}

// asked reports whether -run names a measurement. Without it, none takes long.
func asked(name string) bool { return strings.Contains(flag.Lookup("test.run").Value.String(), name) }

// contendInTurns lets every contender run the scenario in every round.
func contendInTurns(t *testing.T, names []string, rounds int, s contention.Scenario) *contentionReport {
	t.Helper()
	r := &contentionReport{names: names, results: make([][]*contention.Result, len(names))}
	for round := range rounds {
		for turn := range names {
			i := (turn + round) % len(names) // none always follows the same one
			s.Mutex = names[i]
			r.results[i] = append(r.results[i], s.Run(t))
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
	require.NotEmpty(t, names, "no peer is called %q", *contentionPeers)
	return names
}

// contentionReport is the measurement with one number of processes and goroutines.
type contentionReport struct {
	names   []string
	results [][]*contention.Result // by contender and round
}

// contended are what results have, by name.
var contended = []struct {
	title    string
	name     string
	decimals int
	more     bool // is better
	of       func(*contention.Result) float64
}{
	{"locks/s", figures.LocksPerSecond, 0, true, (*contention.Result).AcquisitionsPerSecond},
	{"goroutine changes/s", figures.ChangesPerSecond, 0, true, (*contention.Result).GoroutineChangesPerSecond},
	{"mean wait ms", figures.MeanWait, 1, false, func(r *contention.Result) float64 { return contention.Millis(r.MeanWait()) }},
	{"p50", figures.P50Wait, 1, false, waitOf(50)},
	{"p99", figures.P99Wait, 1, false, waitOf(99)},
	{"max", figures.LongestWait, 1, false, waitOf(100)},
	{"commands/lock", "commands/lock", 1, false, (*contention.Result).CommandsPerAcquisition},
	{"commands/goroutine change", figures.CommandsPerChange, 1, false, (*contention.Result).CommandsPerGoroutineChange},
	{"min process share", figures.LeastShare, 2, true, func(r *contention.Result) float64 { return r.MinProcessShare }},
}

func waitOf(percent int) func(*contention.Result) float64 {
	return func(r *contention.Result) float64 { return contention.Millis(r.Wait(percent)) }
}

func contendedColumns() (columns []figures.Column) {
	for _, c := range contended {
		columns = append(columns, figures.Column{Title: c.title, Value: c.name, Decimals: c.decimals, More: c.more})
	}
	return columns
}

// rows has a row for each contender. What was divided by nothing in a round is left out.
func (r *contentionReport) rows() (rows []figures.Row) {
	for i, name := range r.names {
		row := figures.Row{Peer: name, Values: make(map[string]figures.Figure)}
		for _, c := range contended {
			addFigure(&row, c.name, r.results[i], func(result **contention.Result) float64 { return c.of(*result) })
		}
		rows = append(rows, row)
	}
	return rows
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
		mutex, err := c.open(t.Context(), contention.Setup{Addresses: addressesOf(servers), Goroutines: 1, TTL: time.Second})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		_, err = mutex.Lock(ctx, "held")
		require.Error(t, err, c.name)
		assert.Error(t, ctx.Err(), "%s: Lock ended with %v before its context", c.name, err)
		cancel()
		assert.NoError(t, mutex.Close())
	}
}
