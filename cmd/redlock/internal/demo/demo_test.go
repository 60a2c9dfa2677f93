package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
	"github.com/redquorum/redquorum/cmd/redlock/internal/terminal"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/redlock"
)

// TestMain fails if the tests leave goroutines behind.
func TestMain(m *testing.M) {
	_, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	stop() // what waits for signals stays
	before := runtime.NumGoroutine()
	status := m.Run()
	for range 6000 { // a minute
		if runtime.NumGoroutine() <= before {
			os.Exit(status)
		}
		time.Sleep(10 * time.Millisecond)
	}
	stacks := make([]byte, 1<<20)
	fmt.Printf("%d goroutines at first, %d left:\n%s\n", before, runtime.NumGoroutine(), stacks[:runtime.Stack(stacks, true)])
	os.Exit(1)
}

func TestWrongFlagsAreUsageErrorsThatNameTheFlagAndShowNoPassword(t *testing.T) {
	for _, c := range []struct{ args, says string }{
		{"--workers 1", "--workers: 1 is not between 2 and 16"},
		{"--workers 17", "--workers: 17"},
		{"--workers many", `"--workers"`},
		{"--duration 2999ms", "--duration: 2.999s is not between 3s and 1m0s"},
		{"--duration 61s", "--duration: 1m1s"},
		{"--node redis://:secret@host:1", "unknown flag: --node"},
		{"redis://:secret@host:1", "demo takes no arguments"},
	} {
		status, stdout, stderr := clitest.Line(clitest.Root(NewCommand()), append([]string{"demo"}, strings.Fields(c.args)...)...)
		assert.Equal(t, cli.ExitUsage, status, c.args)
		assert.Empty(t, stdout, c.args)
		assert.Contains(t, stderr, c.says)
		assert.Contains(t, stderr, "redlock demo --help")
		assert.NotContains(t, stderr, "secret", c.args)
	}
}

func TestUnpluggedCableEndsItsConnections(t *testing.T) {
	listener, err := redistest.Listen()
	require.NoError(t, err)
	defer listener.Close()
	var c cable
	dial := func() (net.Conn, error) { return c.dial(t.Context(), "tcp", listener.Addr().String()) }
	first, err := dial()
	require.NoError(t, err)
	c.unplug()
	_, err = first.Read(make([]byte, 1))
	require.ErrorIs(t, err, net.ErrClosed)
	_, err = dial()
	require.ErrorIs(t, err, errUnplugged)
	c.plug()
	second, err := dial()
	require.NoError(t, err)
	require.NoError(t, second.Close())
}

// A busy machine may be too slow to show everything in three seconds, so the demo gets more time
// there. What must never be seen fails at once.
func TestDemoShowsAllThatItPromises(t *testing.T) {
	t.Parallel()
	var missing []string
	for duration := minDuration; duration <= maxDuration/2; duration *= 2 {
		var out bytes.Buffer
		err := run(t.Context(), &config{duration: duration, workers: 4}, wide, &out)
		if err != nil && !errors.Is(err, errNothingAcquired) && !errors.Is(err, errNoLateWrite) {
			t.Fatalf("got %v and\n%s", err, out.String())
		}
		assert.NotContains(t, out.String(), "\x1b")
		missing = nil
		for _, line := range []string{
			"redlock demo: 4 workers, one lock, 5 embedded nodes; the lock takes 3 votes.\n\n",
			"  node 2 (", "  node 4 (", " stopped, with its connections\n", "is back, with its data\n",
			"is stopped: asleep, cut off from all nodes\n", "has lost the lock: its validity has ended\n",
			"wakes up and writes with its old token: REJECTED\n",
			"4 workers wait for one lock. Acquired ", "Two of five nodes were away", "lost at ", " ms later.", "REJECTED by the store.",
			"No two holds overlap", "   nodes up  555", "4444", "3333", "x~", "~!", "█", "·",
		} {
			if !strings.Contains(out.String(), line) {
				missing = append(missing, line)
			}
		}
		none := strings.Contains(out.String(), "acquired 0 times meanwhile") || strings.Contains(out.String(), "; 0 votes handed over")
		if len(missing) == 0 && !none {
			return
		}
		t.Logf("%v are too short here: missing %q in\n%s", duration, missing, out.String())
	}
	t.Errorf("the demo never shows %q", missing)
}

func TestASignalEndsTheDemoEarlyWithWhatWasSeen(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out bytes.Buffer
	require.NoError(t, run(ctx, &config{duration: minDuration, workers: 4}, wide, writer(func(p []byte) (int, error) {
		if bytes.Contains(p, []byte("asleep")) { // so somebody had the lock
			cancel()
		}
		return out.Write(p)
	})))
	assert.Contains(t, out.String(), "Ended early, after ")
	assert.Contains(t, out.String(), "   worker 4  ")
}

type writer func(p []byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// Its reader is gone.
func TestOutputThatCannotBeWrittenIsAnError(t *testing.T) {
	broken := errors.New("broken pipe")
	record := newRecorder(clock.System(), 1, wide, writer(func([]byte) (int, error) { return 0, broken }))
	record.print("text")
	record.print("more")
	require.ErrorIs(t, record.failure(), broken)
}

// wide is a plain look that wraps no sentence.
var wide = terminal.Look{Width: func() int { return 400 }}

const ms = time.Millisecond

// storyWith is the report of a run of two seconds, with a change: one node is away from 0.5 s to
// 0.8 s and another from 0.6 s, and worker 2 is stopped at 1.1 s.
func storyWith(harm func(*report)) *report {
	r := &report{ttl: 400 * ms, handedOver: 4, polls: 1, trace: trace{
		workers: 3, elapsed: 2 * time.Second,
		holds: []hold{
			{worker: 1, asked: 0, began: 0, ended: 300 * ms},
			{worker: 2, asked: 0, began: 300 * ms, ended: 500 * ms},
			{worker: 3, asked: 100 * ms, began: 500 * ms, ended: 950 * ms},
			{worker: 2, asked: 900 * ms, began: 1000 * ms, ended: 1400 * ms},
			{worker: 1, asked: 1200 * ms, began: 1450 * ms, ended: 1700 * ms},
		},
		gaveUp:  []hold{{worker: 3, asked: 1900 * ms, began: 2 * time.Second}},
		changes: []change{{500 * ms, false}, {600 * ms, false}, {800 * ms, true}, {800 * ms, true}},
		stop: stoppage{
			worker: 2, token: 41, began: 1100 * ms, lost: 1400 * ms, wrote: 1600 * ms, seen: 43, err: redlock.ErrLost,
		},
	}}
	if harm != nil {
		harm(r)
	}
	return r
}

func (r *report) text(look terminal.Look) string { return look.Text(r.lines(look)) }

func TestReportSaysAndDrawsWhatIsSeen(t *testing.T) {
	r := storyWith(nil)
	require.NoError(t, r.err())
	narrow := wide
	narrow.Width = func() int { return laneLabelWidth + 40 }
	picture := `
             0s        0.5s      1s        1.5s
   nodes up  5555555555443333555555555555555555555555
   worker 1  ██████                  ·····█████
   worker 2  ······████        ··████████x~~~!
   worker 3    ········█████████                   ··
             █ holds  · waits  ~ stopped  x lock lost  ! late write
`
	assert.True(t, strings.HasSuffix(r.text(narrow), picture), r.text(narrow))
	assert.Contains(t, r.text(wide), `
contention      3 workers wait for one lock. Acquired 5 times; 4 votes handed over, 1 poll. With all nodes up, the longest wait was 300 ms.
dead minority   Two of five nodes were away from 0.6 s to 0.8 s: acquired 0 times meanwhile, and no worker met an error. The longest wait was 0 ms.
stopped holder  Worker 2 had the lock and was stopped at 1.1 s, so it was no longer renewed: lost at 1.4 s (TTL 400 ms), and worker 1 had it 50 ms later.
fencing         Worker 2 woke up at 1.6 s and wrote, unaware of that: REJECTED by the store. The token was 41; the store had seen 43.
exclusion       No two holds overlap: the times of all 5 are compared, and drawn here.
`)
	colored := wide
	colored.Color = true
	for _, want := range []string{"\x1b[32mREJECTED\x1b[0m", "\x1b[32m█", "\x1b[31m4\x1b", "\x1b[31mx\x1b[0m", "\x1b[31m!\x1b[0m", "\x1b[33m█"} {
		assert.Contains(t, r.text(colored), want)
	}
}

func TestReportAndEventsKeepToTheWidth(t *testing.T) {
	for _, width := range []int{0, 80, 120, 1000} {
		var out bytes.Buffer
		look := terminal.Look{Width: func() int { return width }}
		record := newRecorder(clock.System(), 1, look, &out)
		record.notes(12*time.Second, strings.Repeat("and so on ", 20), func(*trace) {})
		record.print(storyWith(nil).lines(look)...)
		assert.True(t, strings.HasPrefix(out.String(), " 12.0 s  and so on"), out.String())
		for line := range strings.Lines(out.String()) {
			line = strings.TrimSuffix(line, "\n")
			assert.LessOrEqual(t, utf8.RuneCountInString(line), max(width, laneLabelWidth+60), line) // so long is the legend
			assert.False(t, strings.HasSuffix(line, " "), line)
		}
	}
}

func TestWhatIsWrongFailsAndIsShown(t *testing.T) {
	for _, c := range []struct {
		name  string
		harm  func(*report)
		want  error
		shown string
	}{
		{"overlap", func(r *report) { r.holds[2].began -= 8 * ms }, errOverlap, "overlap: worker 3 began 8ms before worker 2 ended, at 0.5 s\n"},
		{"overlap with a lost lock", func(r *report) { r.holds[4].began = 1399 * ms }, errOverlap, "BROKEN: 1 overlap among 5 holds."},
		{"stale write accepted", func(r *report) { r.stop.passed = true }, errStalePassed, ": ACCEPTED by the store."},
		{"holder rejected", func(r *report) { r.wronged = true; r.fault("rejected") }, errWronged, "\nrejected\n"},
		{"nothing", func(r *report) { r.holds = nil }, errNothingAcquired, "Nobody ever held the lock."},
		{"no loss", func(r *report) { r.stop.err = nil }, errNotLost, ""},
		{"released", func(r *report) { r.stop.err = redlock.ErrReleased }, errNotLost, ""},
		{"no late write", func(r *report) { r.stop.wrote = 0 }, errNoLateWrite, "No late write."},
		{"no stop", func(r *report) { r.stop = stoppage{} }, errNoLateWrite, "stopped holder  Not shown"},
		{"faults", func(r *report) {
			for i := range mostFaults + 2 {
				r.fault("fault %d", i)
			}
		}, nil, "and what went wrong is below"},
		{"more faults", func(r *report) { r.more = 2 }, nil, "\nand 2 more faults\n"},
		{"early", func(r *report) { r.stop, r.changes, r.interrupted = stoppage{}, nil, true }, nil, "Ended early, after 2.0 s."},
	} {
		r := storyWith(c.harm)
		text := r.text(wide)
		assert.Contains(t, text, c.shown, c.name)
		if c.want == nil {
			require.NoError(t, r.err(), c.name)
			continue
		}
		require.ErrorIs(t, r.err(), c.want, c.name)
		assert.Equal(t, cli.ExitFailed, cli.ExitStatus(r.err()), c.name)
		assert.Equal(t, !errors.Is(c.want, errOverlap) && len(r.holds) > 0, strings.Contains(text, "No two holds overlap"), c.name)
	}
}

func TestJudgeFindsOverlaps(t *testing.T) {
	for _, c := range []struct {
		name  string
		holds [][2]time.Duration // of a worker each
		want  int
	}{
		{"touching", [][2]time.Duration{{0, 10}, {10, 20}}, 0},
		{"partly", [][2]time.Duration{{0, 10}, {9, 20}}, 1},
		{"within", [][2]time.Duration{{0, 10}, {3, 4}}, 1},
		{"the same", [][2]time.Duration{{0, 10}, {0, 10}}, 1},
		{"a long one over two", [][2]time.Duration{{0, 10}, {1, 2}, {8, 9}}, 2},
		{"over before it began", [][2]time.Duration{{0, 10}, {5, 5}}, 0},
	} {
		var holds []hold
		for i, h := range c.holds {
			holds = append(holds, hold{worker: i + 1, began: h[0], ended: h[1]})
		}
		assert.Len(t, overlaps(holds), c.want, c.name)
	}
	assert.Equal(t, time.Duration(20), endOfLost(20, 0), "a quorum no longer had it")
	assert.Equal(t, time.Duration(17), endOfLost(20, -3), "it expired, and was noticed later")
}
