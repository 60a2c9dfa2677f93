package top

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redquorum/redquorum/cmd/redlock/internal/survey"
	"github.com/redquorum/redquorum/cmd/redlock/internal/terminal"
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
			{"redis://a:6379", Votes, "", "redis 8.0.2", well},
			{"redis://b:6379", Barred, "quarantined for another 43.2s: it lost its keys", "valkey 9.1.0", dumb},
			{"redis://c.a-data-center.example.com:6379", Down, "dial tcp 10.0.0.3:6379: connect: connection refused", "-", survey.Vitals{Err: errors.New("away")}},
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

func drawn(s *Snapshot, width, height int) string {
	var lines []string
	for _, line := range s.Lines(width, height) {
		lines = append(lines, terminal.Line(line, 1000, false))
	}
	return strings.Join(lines, "\n")
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

var at200 = `
redlock top orders/*` + strings.Repeat(" ", 163) + `12:31:05  q quits
4 locks: 2 held, 1 split, 1 free. Waiting: 3. New holders: at least 1.5/s.
redis://a:6379 may have more: stopped after about 10000 keys and 2 locks. Give a narrower PATTERN, or a larger --scan or --limit.

MASTER                                    STATE     PING  COMMANDS/S  KEYS  CLIENTS  SERVER
redis://a:6379                            votes    0.4ms        1284  5310       17  redis 8.0.2
redis://b:6379                            no vote   1.2s           -     -        -  valkey 9.1.0
  quarantined for another 43.2s: it lost its keys
redis://c.a-data-center.example.com:6379  down         -           -     -        -  -
  dial tcp 10.0.0.3:6379: connect: connection refused

NAME                                     KIND       STATE  HOLDER                                       LEFT  WAITING  MASTERS
orders/42                                lock       held   deploy@web-1.a-data-center.example.com:4711  28s   3        2 of 3
orders/2026/05/04/that-have-a-long-name  lock       split  -                                            -     -        2 of 3
orders/7                                 lock       free   -                                            -     -        1 of 3
orders/pool                              semaphore  held   2 of 3 permits                               9.3s  -        2 of 3
`

func TestSnapshotIsDrawnForTheWidth(t *testing.T) {
	for width, want := range map[int]string{80: at80, 200: at200} {
		assert.Equal(t, strings.TrimPrefix(want, "\n"), drawn(sample(), width, 24)+"\n", "%d columns", width)
	}
	for width := 60; width < 240; width++ {
		for line := range strings.SplitSeq(drawn(sample(), width, 24), "\n") {
			assert.LessOrEqual(t, terminal.Columns(line), width, line)
		}
	}
}

func TestLocksBeyondTheScreenAreCounted(t *testing.T) {
	for height, want := range map[int]string{
		17: "orders/pool", 16: "2 more locks; a narrower PATTERN shows them", 15: "3 more locks; ", 14: "4 more locks; ", 1: "4 more locks; ",
	} {
		lines := strings.Split(drawn(sample(), 80, height), "\n")
		assert.True(t, strings.HasPrefix(lines[len(lines)-1], want), "height %d: %q, want %q", height, lines[len(lines)-1], want)
		if height > 13 {
			assert.LessOrEqual(t, len(lines), height)
		}
	}
}

func TestStatesHaveColors(t *testing.T) {
	var all strings.Builder
	for _, line := range sample().Lines(80, 24) {
		all.WriteString(terminal.Line(line, 80, true) + "\n")
	}
	for _, want := range []string{
		"\x1b[32mvotes  ", "\x1b[33mno vote", "\x1b[31mdown ", "\x1b[32mheld ", "\x1b[33msplit", "\x1b[2mfree ", "\x1b[1mredlock top",
	} {
		assert.Contains(t, all.String(), want)
	}
	s := Snapshot{Problem: "too few masters answer"}
	problem := s.Lines(80, 24)[1]
	assert.Equal(t, "\x1b[31mtoo\x1b[0m \x1b[31mfew\x1b[0m \x1b[31mmasters\x1b[0m \x1b[31manswer\x1b[0m", terminal.Line(problem, 80, true))
}
