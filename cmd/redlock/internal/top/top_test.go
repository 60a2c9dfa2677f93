package top

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/cmd/redlock/internal/terminal"
	"github.com/redquorum/redquorum/internal/survey"
)

// sample has everything that is drawn.
func sample() *Snapshot {
	well := survey.Vitals{RoundTrip: 412 * time.Microsecond, Commands: 1284, Keys: 5310, Clients: 17}
	dumb := survey.Vitals{RoundTrip: 1200 * time.Millisecond, Commands: -1, Keys: -1, Clients: -1}
	return &Snapshot{
		At:    time.Date(2026, 5, 4, 12, 31, 5, 0, time.UTC),
		Title: "redlock top orders/*",
		Count: "4 locks: 2 held, 1 split, 1 free. Waiting: 3. New holders: at least 1.5/s.",
		Notes: []string{
			"redis://a:6379 may have more: stopped after about 10000 keys and 2 locks. Give a narrower PATTERN, " +
				"or a larger --scan or --limit.",
		},
		Masters: []Master{
			{"redis://a:6379", survey.MemberVotes, "", "redis 8.0.2", well},
			{"redis://b:6379", survey.MemberBarred, "quarantined for another 43.2s: it lost its keys", "valkey 9.1.0", dumb},
			{"redis://c.a-data-center.example.com:6379", survey.MemberDown, "dial tcp 10.0.0.3:6379: connect: connection refused", "-", survey.Vitals{Err: errors.New("away")}},
		},
		Locks: terminal.Table{
			Heading: []string{"NAME", "KIND", "STATE", "HOLDER", "LEFT", "WAITING", "MASTERS"},
			Rows: [][]string{
				{"orders/42", "lock", "held", "deploy@web-1.a-data-center.example.com:4711", "28s", "3", "2 of 3"},
				{"orders/2026/05/04/that-have-a-long-name", "lock", "split", "-", "-", "-", "2 of 3"},
				{"orders/7", "lock", "free", "-", "-", "-", "1 of 3"},
				{"orders/pool", "semaphore", "held", "2 of 3 permits", "9.3s", "-", "2 of 3"},
			},
			Long: []int{0, 3},
		},
		State: 2,
	}
}

func drawn(s *Snapshot, width, height int, color bool) string {
	return strings.TrimSuffix(terminal.Look{Color: color}.Text(s.Lines(width, height)), "\n")
}

const at80 = `
redlock top orders/*                                           12:31:05  q quits
4 locks: 2 held, 1 split, 1 free. Waiting: 3. New holders: at least 1.5/s.
redis://a:6379 may have more: stopped after about 10000 keys and 2 locks. Give a
narrower PATTERN, or a larger --scan or --limit.

MASTER                   STATE     PING  COMMANDS/S  KEYS  CLIENTS  SERVER
a:6379                   votes    0.4ms        1284  5310       17  redis 8.0.2
b:6379                   no vote   1.2s           -     -        -  valkey 9.1.0
  quarantined for another 43.2s: it lost its keys
c.a-data-center.exampl…  down         -           -     -        -  -
  dial tcp 10.0.0.3:6379: connect: connection refused

NAME                KIND       STATE  HOLDER              LEFT  WAITING  MASTERS
orders/42           lock       held   deploy@web-1.a-da…  28s   3        2 of 3
orders/2026/05/04…  lock       split  -                   -     -        2 of 3
orders/7            lock       free   -                   -     -        1 of 3
orders/pool         semaphore  held   2 of 3 permits      9.3s  -        2 of 3
`

func TestSnapshotIsDrawnForTheWidth(t *testing.T) {
	assert.Equal(t, strings.TrimPrefix(at80, "\n"), drawn(sample(), 80, 24, false)+"\n")
	wide := drawn(sample(), 200, 24, false)
	for _, begin := range []string{
		"redlock top orders/*" + strings.Repeat(" ", 163) + "12:31:05  q quits\n",
		"redis://a:6379 may have more: stopped after about 10000 keys and 2 locks. Give a narrower PATTERN, or a larger --scan or --limit.\n",
		"redis://a:6379                            votes    0.4ms        1284  5310       17  redis 8.0.2\n",
		"redis://c.a-data-center.example.com:6379  down         -           -     -        -  -\n  dial tcp 10.0.0.3:6379: connect: connection refused\n",
		"orders/42                                lock       held   deploy@web-1.a-data-center.example.com:4711  28s   3        2 of 3\n",
		"orders/2026/05/04/that-have-a-long-name  lock       split  -                                            -     -        2 of 3\n",
	} {
		assert.Contains(t, "\n"+wide, "\n"+begin)
	}
	for width := 60; width < 240; width++ {
		for line := range strings.SplitSeq(drawn(sample(), width, 24, false), "\n") {
			assert.LessOrEqual(t, terminal.Columns(line), width, line)
		}
	}
}

func TestLocksBeyondTheScreenAreCounted(t *testing.T) {
	for height, want := range map[int]string{
		17: "orders/pool", 16: "2 more locks; a narrower PATTERN shows them", 15: "3 more locks; ", 14: "4 more locks; ", 1: "4 more locks; ",
	} {
		lines := strings.Split(drawn(sample(), 80, height, false), "\n")
		assert.True(t, strings.HasPrefix(lines[len(lines)-1], want), "height %d: %q, want %q", height, lines[len(lines)-1], want)
		if height > 13 {
			assert.LessOrEqual(t, len(lines), height)
		}
	}
}

func TestStatesHaveColors(t *testing.T) {
	for _, want := range []string{
		"\x1b[32mvotes  ", "\x1b[33mno vote", "\x1b[31mdown ", "\x1b[32mheld ", "\x1b[33msplit", "\x1b[2mfree ", "\x1b[1mredlock top",
	} {
		assert.Contains(t, drawn(sample(), 80, 24, true), want)
	}
	assert.Contains(t, drawn(&Snapshot{Problem: "too few"}, 80, 24, true), "\x1b[31mtoo\x1b[0m \x1b[31mfew\x1b[0m")
}

// shown is a Screen on a buffer, with the size and the keys of the test.
type shown struct {
	Screen
	out           bytes.Buffer
	keys          chan byte
	resized       chan os.Signal
	taken         int
	width, height int
}

func newShown() *shown {
	s := &shown{keys: make(chan byte), resized: make(chan os.Signal), width: 80, height: 24}
	s.Screen = Screen{
		Look: terminal.Look{Size: func() (int, int) { return s.width, s.height }}, Out: &s.out, Keys: s.keys, Resized: s.resized,
		Interval: time.Second,
		Take: func(context.Context) Snapshot {
			s.taken++
			return Snapshot{Count: fmt.Sprintf("look %d", s.taken)}
		},
	}
	return s
}

// run shows until something ends it.
func (s *shown) run(ctx context.Context) <-chan error {
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	return done
}

func TestScreenShowsSnapshotsUntilAKeyEndsIt(t *testing.T) {
	for _, key := range []byte{'q', 'Q', interrupt, endOfInput} {
		synctest.Test(t, func(t *testing.T) {
			s := newShown()
			done := s.run(t.Context())
			s.keys <- 'x'
			time.Sleep(2500 * time.Millisecond)
			s.keys <- key
			require.NoError(t, <-done)
			text := s.out.String()
			assert.Equal(t, 3, s.taken)
			for _, want := range []string{"Asking the masters…", "look 1", "look 2", "look 3"} {
				assert.Contains(t, text, want)
			}
			assert.True(t, strings.HasPrefix(text, terminal.EnterScreen))
			assert.True(t, strings.HasSuffix(text, terminal.LeaveScreen))
			assert.Equal(t, 1, strings.Count(text, terminal.LeaveScreen))
		})
	}
}

func TestScreenIsDrawnForItsNewSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShown()
		ctx, cancel := context.WithCancel(t.Context())
		done := s.run(ctx)
		synctest.Wait()
		s.out.Reset()
		s.width, s.height = 20, 2
		s.resized <- syscall.Signal(0)
		synctest.Wait()
		assert.Equal(t, "\x1b[H"+strings.Repeat(" ", 13)+"q quits\r\nlook 1\x1b[K\x1b[J", s.out.String())
		close(s.keys) // nobody can type any more: it goes on
		time.Sleep(1100 * time.Millisecond)
		synctest.Wait()
		assert.Contains(t, s.out.String(), "look 2")
		cancel()
		require.NoError(t, <-done)
	})
}

// A look that takes long does not keep the screen from ending.
func TestScreenEndsWhileTheMastersAreAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShown()
		s.Take = func(ctx context.Context) Snapshot {
			<-ctx.Done()
			return Snapshot{}
		}
		done := s.run(t.Context())
		s.keys <- 'q'
		require.NoError(t, <-done)
	})
}

type brokenWriter struct{ left int }

var errBroken = errors.New("broken")

func (w *brokenWriter) Write(p []byte) (int, error) {
	if w.left--; w.left < 0 {
		return 0, errBroken
	}
	return len(p), nil
}

func TestScreenThatCannotBeWrittenEnds(t *testing.T) {
	for left := range 3 {
		synctest.Test(t, func(t *testing.T) {
			s := newShown()
			s.Out = &brokenWriter{left}
			require.ErrorIs(t, s.Run(t.Context()), errBroken)
		})
	}
}

func TestWithoutATerminalNothingIsShown(t *testing.T) {
	assert.False(t, CanShow(&bytes.Buffer{}, &bytes.Buffer{}))
	null, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer null.Close()
	assert.False(t, CanShow(null, &bytes.Buffer{}))
	err = Show(t.Context(), null, &bytes.Buffer{}, time.Second, nil)
	require.ErrorIs(t, err, ErrNoTerminal)
	assert.Contains(t, err.Error(), "redlock list")
}
