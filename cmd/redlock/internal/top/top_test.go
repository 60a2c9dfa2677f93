package top

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/admin/survey"
	"github.com/redquorum/redquorum/cmd/redlock/internal/terminal"
)

// lockOf is a lock that two of three masters told of.
func lockOf(name, verdict, owner string, left time.Duration, waiters ...string) survey.Inspection {
	i := survey.Inspection{Name: name, Verdict: verdict, Owner: owner, Kind: survey.KindLock, Quorum: 2, Members: 3}
	value := "7f6e5d4c3b2a19080706|" + name
	if verdict == "held" {
		i.Value, i.Tenure = value, survey.Tenure{Since: "2026-05-04T12:29:00Z", HeldMillis: 125_000}
	}
	for _, master := range []string{"redis://a:6379", "redis://b:6379"} {
		i.Nodes = append(i.Nodes, survey.NodeInspection{
			Endpoint: master, Value: value, Owner: owner, TTLMillis: left.Milliseconds(), Fence: 17, Waiting: len(waiters), Waiters: waiters,
		})
		waiters = nil
	}
	i.Nodes = append(i.Nodes, survey.NodeInspection{Endpoint: "redis://c.example.com:6379", Error: "dial tcp 10.0.0.3:6379: connect: connection refused"})
	return i
}

// sample has everything that is drawn.
func sample() Snapshot {
	well := admin.Vitals{RoundTrip: 412 * time.Microsecond, Commands: 1284, Keys: 5310, Clients: 17}
	dumb := admin.Vitals{RoundTrip: 1200 * time.Millisecond, Commands: -1, Keys: -1, Clients: -1}
	pool := lockOf("orders/pool", "free", "", 0)
	pool.Kind = survey.KindSemaphore
	pool.Nodes = pool.Nodes[2:]
	pool.Permits = []survey.Holding{
		{Name: "orders/pool#1", Verdict: "held", Value: "one", Owner: "ann@desk:1 shell", TTLMillis: 9300, Masters: 2},
		{Name: "orders/pool#2", Verdict: "free"},
	}
	return Snapshot{
		At:    time.Date(2026, 5, 4, 12, 31, 5, 0, time.UTC),
		Count: "5 locks: 3 held, 1 split, 1 free. Waiting: 2. New holders: at least 1.5/s.",
		Notes: []string{
			"redis://a:6379 may have more: stopped after about 10000 keys and 2 locks. Give a narrower PATTERN, " +
				"or a larger --scan or --limit.",
		},
		Masters: []Master{
			{"redis://a:6379", survey.MemberVotes, "", "redis 8.0.2", well},
			{"redis://b:6379", survey.MemberBarred, "quarantined for another 43.2s: it lost its keys", "valkey 9.1.0", dumb},
			{"redis://c.a-data-center.example.com:6379", survey.MemberDown, "dial tcp 10.0.0.3:6379: connect: connection refused", "-", admin.Vitals{Err: errors.New("away")}},
		},
		Locks: []survey.Inspection{
			lockOf("orders/2026/05/04/that-have-a-long-name", "split", "", 0),
			lockOf("orders/7", "free", "", 0),
			lockOf("orders/42", "held", "deploy@web-1.a-data-center.example.com:4711", 28*time.Second, "ann@desk:1 shell", "bob@desk:2 shell"),
			pool,
			lockOf("orders/\x1b[2J\u202e日本", "held", "cron@db:9", 3*time.Second),
		},
	}
}

// played is a model with a script for its masters. What it asks of them is done in the tests.
type played struct {
	*model
	t     *testing.T
	asked []func(context.Context) tea.Msg
	looks []string // the names of the locks that were looked at; empty: at all
	force []string // what was released, and why
	err   error    // of a release
	now   Snapshot // what a look sees
}

// play is a model that has looked once.
func play(t *testing.T, width, height int) *played {
	p := &played{t: t, now: sample()}
	p.model = newModel(Config{
		Title: "redlock top orders/*", Interval: time.Hour,
		Look: func(_ context.Context, name string) Snapshot {
			p.looks = append(p.looks, name)
			s := p.now
			if name != "" {
				s = Snapshot{At: p.now.At}
				for _, i := range p.now.Locks {
					if i.Name == name {
						s.Locks = []survey.Inspection{i}
					}
				}
			}
			return s
		},
		Force: func(_ context.Context, name, digest, reason string) (survey.Release, error) {
			p.force = append(p.force, strings.TrimSpace(digest+" "+name+": "+reason))
			return survey.Release{Inspection: survey.Inspection{Verdict: "held"}, KnownBy: "2026-05-04T12:31:33Z", Left: 28 * time.Second}, p.err
		},
	})
	p.do = func(work func(context.Context) tea.Msg) tea.Cmd {
		p.asked = append(p.asked, work)
		return nil
	}
	p.Init()
	p.Update(tea.WindowSizeMsg{Width: width, Height: height})
	p.answer()
	return p
}

// answer lets the masters answer.
func (p *played) answer() {
	asked := p.asked
	p.asked = nil
	for _, work := range asked {
		p.Update(work(p.t.Context()))
	}
}

// press presses keys: named ones between spaces, others one after the other.
func (p *played) press(keys string) (last tea.Cmd) {
	named := map[string]tea.Key{
		"enter": {Code: tea.KeyEnter}, "esc": {Code: tea.KeyEscape}, "up": {Code: tea.KeyUp}, "down": {Code: tea.KeyDown},
		"pgdown": {Code: tea.KeyPgDown}, "pgup": {Code: tea.KeyPgUp}, "home": {Code: tea.KeyHome}, "end": {Code: tea.KeyEnd},
		"right": {Code: tea.KeyRight}, "ctrl+c": {Code: 'c', Mod: tea.ModCtrl}, "ctrl+d": {Code: 'd', Mod: tea.ModCtrl},
	}
	for word := range strings.FieldsSeq(keys) {
		if k, ok := named[word]; ok {
			_, last = p.Update(tea.KeyPressMsg(k))
			continue
		}
		for _, r := range word {
			_, last = p.Update(tea.KeyPressMsg{Code: r, Text: string(r)})
		}
	}
	return last
}

// screen is what is shown, without styles.
func (p *played) screen() string {
	var b strings.Builder
	for line := range strings.SplitSeq(p.View().Content, "\n") {
		b.WriteString(strings.TrimRight(ansi.Strip(line), " ") + "\n")
	}
	return b.String()
}

const at80 = `
redlock top orders/*                                   12:31:05  ? help  q quits
5 locks: 3 held, 1 split, 1 free. Waiting: 2. New holders: at least 1.5/s.
redis://a:6379 may have more: stopped after about 10000 keys and 2 locks. Give a
narrower PATTERN, or a larger --scan or --limit.

MASTER                   STATE     PING  COMMANDS/S  KEYS  CLIENTS  SERVER
a:6379                   votes    0.4ms        1284  5310       17  redis 8.0.2
b:6379                   no vote   1.2s           -     -        -  valkey 9.1.0
  quarantined for another 43.2s: it lost its keys
c.a-data-center.exampl…  down         -           -     -        -  -
  dial tcp 10.0.0.3:6379: connect: connection refused

  NAME            KIND       STATE  HOLDER          HELD  LEFT  WAITING  MASTERS
> orders/42       lock       held   deploy@web-1.…  2m5s  28s   2        2 of 3
  orders/2026/0…  lock       split  -               -     -     -        2 of 3
  orders/7        lock       free   -               -     -     -        2 of 3
  orders/pool     semaphore  held   1 of 2 permits  -     9.3s  -        2 of 3
  orders/\x1b[2…  lock       held   cron@db:9       2m5s  3s    -        2 of 3
Lock 1 of 5, by interest
`

func TestLocksAndMastersAreDrawnForTheWidth(t *testing.T) {
	assert.Equal(t, at80, "\n"+play(t, 80, 19).screen())
	wide := play(t, 200, 24).screen()
	for _, begin := range []string{
		"redlock top orders/*" + strings.Repeat(" ", 155) + "12:31:05  ? help  q quits\n",
		"redis://a:6379 may have more: stopped after about 10000 keys and 2 locks. Give a narrower PATTERN, or a larger --scan or --limit.\n",
		"redis://a:6379                            votes    0.4ms        1284  5310       17  redis 8.0.2\n",
		"redis://c.a-data-center.example.com:6379  down         -           -     -        -  -\n  dial tcp 10.0.0.3:6379: connect: connection refused\n",
		"> orders/42                                lock       held   deploy@web-1.a-data-center.example.com:4711  2m5s  28s   2        2 of 3\n",
		"  orders/\\x1b[2J\\u202e日本                 lock       held   cron@db:9                                    2m5s  3s    -        2 of 3\n",
	} {
		assert.Contains(t, "\n"+wide, "\n"+begin)
	}
}

const lockAt80 = `
orders/42                                              12:31:05  ? help  q quits
MASTER                   VALUE      OWNER                    TTL  FENCE  WAITING
redis://a:6379           7f6e5d4c…  deploy@web-1.a-data-ce…  28s  17     2
redis://b:6379           7f6e5d4c…  deploy@web-1.a-data-ce…  28s  17     -
redis://c.example.com:…  -          -                        -    -      -

"orders/42" is held by deploy@web-1.a-data-center.example.com:4711 since 2026-
05-04T12:29:00Z, for 2m5s: 2 of 3 masters have its value.
Waiting: ann@desk:1 shell, bob@desk:2 shell.
redis://c.example.com:6379 does not count: dial tcp 10.0.0.3:6379: connect:
connection refused
Its holder may be at work, and a second one could begin at once. If the holder
is gone, type what to take away, as it is shown; Esc leaves it.
Name: orders/4
`

func TestALockIsLookedAtOverAllMasters(t *testing.T) {
	p := play(t, 80, 14)
	p.press("enter u orders/4")
	assert.Equal(t, lockAt80, "\n"+p.screen())
	p.press("esc esc end up enter")
	assert.Contains(t, p.screen(), `
PERMIT         OWNER             HELD  TTL   FENCE  MASTERS
orders/pool#1  ann@desk:1 shell  -     9.3s  -      2 of 3

"orders/pool" is a semaphore: 1 of 2 permits held.
`)
}

const helpAt80 = `
redlock top: keys                                      12:31:05  ? help  q quits
↑ k      a lock or line up
↓ j      and down
PgUp b   a page up
PgDn f   and down
Home g   to the first
End G    to the last
Enter    look at the lock: its masters, holders and waiters
/        only locks with a text in their name or holder
s        sort by the next column
r        in reverse
u        take the lock that is looked at from its holder (--allow-force)
Esc      back to all locks
?        these keys, and back
q Ctrl-C end
`

func TestHelpHasTheKeys(t *testing.T) {
	p := play(t, 80, 15)
	p.press("enter ?")
	assert.Equal(t, helpAt80, "\n"+p.screen())
	p.press("? u ?") // it is a letter there
	assert.Contains(t, p.screen(), "Name: ?")
}

// Whatever the size of the terminal, nothing is wider or higher, and the lock that is chosen is on
// the screen.
func TestNoViewIsLargerThanTheTerminal(t *testing.T) {
	for _, keys := range []string{"", "end", "/ data", "enter", "enter u", "enter u orders/42 enter gone enter", "?"} {
		p := play(t, 80, 24)
		p.press(keys)
		p.answer()
		for _, width := range []int{60, 80, 81, 120, 200} {
			for height := 9; height < 24; height++ {
				p.Update(tea.WindowSizeMsg{Width: width, Height: height})
				lines := strings.Split(p.View().Content, "\n")
				assert.LessOrEqual(t, len(lines), height, "%q:\n%s", keys, p.screen())
				for _, line := range lines {
					assert.LessOrEqual(t, terminal.Columns(line), width, line)
				}
				if p.lock == nil && !p.helping {
					assert.Contains(t, p.screen(), "\n> ", "%q %dx%d", keys, width, height)
				}
			}
		}
		p.Update(tea.WindowSizeMsg{}) // a terminal that knows no size has no room, and is no reason to fail
	}
}

// begins returns the beginnings of the names of the locks on the screen. The one that is chosen has
// a mark.
func (p *played) begins() string {
	var names []string
	_, rows, _ := strings.Cut(p.screen(), "  NAME ")
	for _, line := range strings.Split(rows, "\n")[1:] {
		if mark, name, ok := strings.Cut(line, "orders/"); ok && len(mark) == 2 {
			names = append(names, strings.TrimSpace(mark)+strings.Fields(name)[0])
		}
	}
	return strings.Join(names, " ")
}

func TestKeysChooseSortAndFilter(t *testing.T) {
	for _, c := range []struct{ keys, want, status string }{
		{"down down up", "42 >2026 7 pool \\x1b[2J\\u202e日本", "Lock 2 of 5, by interest"},
		{"down up up", ">42 2026 7 pool \\x1b[2J\\u202e日本", "Lock 1 of 5, by interest"},
		{"end down", "42 2026 7 pool >\\x1b[2J\\u202e日本", "Lock 5 of 5, by interest"},
		{"G home", ">42 2026 7 pool \\x1b[2J\\u202e日本", "Lock 1 of 5, by interest"},
		{"s", "\\x1b[2J\\u202e日本 7 >42 2026 pool", "Lock 3 of 5, by name"},
		{"sr", "pool 2026 >42 7 \\x1b[2J\\u202e日本", "Lock 3 of 5, by name, in reverse"},
		{"ss r", "pool \\x1b[2J\\u202e日本 >42 7 2026", "Lock 3 of 5, by kind, in reverse"},
		{"sss", "7 >42 pool \\x1b[2J\\u202e日本 2026", "Lock 2 of 5, by state"},
		{"ssss", "2026 7 pool \\x1b[2J\\u202e日本 >42", "Lock 5 of 5, by holder"},
		{"sssss", "2026 7 pool >42 \\x1b[2J\\u202e日本", "Lock 4 of 5, by held"},
		{"ssssss", "2026 7 \\x1b[2J\\u202e日本 pool >42", "Lock 5 of 5, by left"},
		{"sssssss r", ">42 \\x1b[2J\\u202e日本 pool 7 2026", "Lock 1 of 5, by waiting, in reverse"},
		{"ssssssss", ">42 2026 7 pool \\x1b[2J\\u202e日本", "Lock 1 of 5, by interest"},
		{"/ DEPLOY enter", ">42", `Lock 1 of 1, by interest, with "DEPLOY"`},
		{"/ 202 enter down", "2026 >\\x1b[2J\\u202e日本", `Lock 2 of 2, by interest, with "202"`},
		{"/ sq enter enter", "", `No locks, with "sq"`},
		{"/ sq esc", ">42 2026 7 pool \\x1b[2J\\u202e日本", "Lock 1 of 5, by interest"},
		{"/ po enter esc", "42 2026 7 >pool \\x1b[2J\\u202e日本", "Lock 4 of 5, by interest"},
	} {
		p := play(t, 200, 24)
		p.press(c.keys)
		assert.Equal(t, c.want, strings.ReplaceAll(p.begins(), "2026/05/04/that-have-a-long-name", "2026"), c.keys)
		assert.Contains(t, p.screen(), "\n"+c.status+"\n", c.keys)
	}
}

func TestTheChosenLockStaysChosenAmongManyThatComeAndGo(t *testing.T) {
	p := play(t, 80, 24)
	p.now.Locks = nil
	for i := range 200 {
		p.now.Locks = append(p.now.Locks, lockOf(fmt.Sprintf("orders/%d", i), "free", "", 0))
	}
	p.Update(due{})
	p.answer()
	p.press("s home") // by name
	assert.Equal(t, ">0 1 2 3 4 5 6 7 8 9", p.begins())
	p.press("pgdown down")
	assert.Equal(t, "2 3 4 5 6 7 8 9 10 >11", p.begins())
	p.press("pgdown up up up")
	assert.Equal(t, "12 13 14 15 16 17 >18 19 20 21", p.begins())
	p.now.Locks = p.now.Locks[15:]
	p.Update(due{})
	p.answer()
	assert.Equal(t, ">18 19 20 21 22 23 24 25 26 27", p.begins(), "others have gone")
	p.now.Locks = append(p.now.Locks[:3:3], p.now.Locks[4:]...)
	p.Update(due{})
	p.answer()
	assert.Equal(t, ">19 20 21 22 23 24 25 26 27 28", p.begins(), "it has gone itself")
}

func TestALockIsTakenFromItsHolderOnceItsNameAndAReasonAreTyped(t *testing.T) {
	permit := survey.Holding{Verdict: "held", Value: "one"}
	for _, c := range []struct {
		keys, says string
		force      []string
	}{
		{"enter u orders/42 enter gone enter", "Released: the next client can acquire it.\nIts holder, if there still is one, knows by 2026-05-04T12:31:33Z", []string{"orders/42: gone"}},
		{"enter u orders/4 enter", `Nothing was released: "orders/4" was typed, and not "orders/42".`, nil},
		{"enter u enter", `Nothing was released: "" was typed, and not "orders/42".`, nil},
		{"enter u orders/42 esc", "Nothing was released: cancelled.", nil},
		{"enter u orders/42 enter enter", "Nothing was released: a reason is needed.", nil},
		{"enter u orders/42 enter gone esc", "Nothing was released: cancelled.", nil},
		{"end enter u orders/\\x1b[2J\\u202e日本 enter gone enter", "Released", []string{"orders/\x1b[2J\u202e日本: gone"}},
		{"end up enter u orders/pool enter", `Nothing was released: "orders/pool" was typed, and not "orders/pool#1".`, nil},
		{"end up enter u orders/pool#1 enter gone enter", "Released", []string{permit.Digest() + " orders/pool#1: gone"}},
		{"u", "Lock 1 of 5", nil}, // nobody has looked at it
		{"enter ? u ?", "orders/42", nil},
	} {
		p := play(t, 100, 24)
		p.press(c.keys)
		p.answer()
		assert.Contains(t, p.screen(), c.says, c.keys)
		assert.Equal(t, c.force, p.force, c.keys)
		assert.Equal(t, nothing, p.question, c.keys)
	}
	p := play(t, 80, 24)
	p.Force = nil
	p.press("enter u")
	assert.NotContains(t, p.screen(), "Name:", "without --allow-force")
}

func TestAReleaseThatFailsSaysWhy(t *testing.T) {
	p := play(t, 80, 24)
	p.err = errors.New("redlock: no quorum")
	p.press("enter u orders/42 enter gone enter")
	assert.Contains(t, p.screen(), "\nReleasing…\n")
	p.press("q esc") // the answer must be seen
	p.answer()
	assert.Contains(t, p.screen(), "\nno quorum\n")
}

// Who decides to take a lock from one holder does not take it from the next one.
func TestALockThatHasPassedOnMeanwhileIsNotReleased(t *testing.T) {
	p := play(t, 80, 24)
	p.press("enter u orders/42 enter gone")
	p.now.Locks[2].Value = "another"
	p.Update(due{})
	p.answer()
	p.press("enter")
	assert.Contains(t, p.screen(), "Nothing was released: its holder has changed meanwhile.")
	p.answer()
	assert.Empty(t, p.force)
}

func TestOneLookFollowsTheOther(t *testing.T) {
	p := play(t, 80, 24)
	assert.Equal(t, []string{""}, p.looks)
	p.press("enter esc enter ? ?")
	assert.Empty(t, p.asked, "keys ask nothing")
	p.Update(due{})
	assert.Len(t, p.asked, 1)
	p.answer()
	assert.Equal(t, []string{"", "orders/42"}, p.looks, "the lock alone")
	p.Update(due{})
	p.press("esc down enter")
	p.answer() // about the first one
	assert.Contains(t, p.screen(), `"orders/2026/05/04/that-have-a-long-name" is split`)
	p.press("esc r")
	p.Update(due{})
	p.now = Snapshot{Count: "No locks.", Problem: "too few masters answer"}
	p.answer()
	assert.Contains(t, p.screen(), "\nNo locks.\ntoo few masters answer\n")
	assert.Contains(t, p.screen(), "\nNo locks, in reverse\n")
}

func TestKeysEndIt(t *testing.T) {
	for keys, ends := range map[string]bool{
		"q": true, "Q": true, "ctrl+c": true, "ctrl+d": true, "? q": true, "enter q": true, "/ ctrl+c": true, "x": false, "/ q": false,
	} {
		last := play(t, 80, 24).press(keys)
		assert.Equal(t, ends, reflect.ValueOf(last).Pointer() == reflect.ValueOf(tea.Quit).Pointer(), keys)
	}
}

func TestStatesHaveColorsAndNamesHaveNoPower(t *testing.T) {
	p := play(t, 80, 24)
	for _, want := range []string{
		"\x1b[32mvotes  ", "\x1b[33mno vote", "\x1b[31mdown ", "\x1b[32mheld ", "\x1b[33msplit", "\x1b[2mfree ", "\x1b[1mredlock top",
	} {
		assert.Contains(t, p.View().Content, want)
	}
	for _, keys := range []string{"end", "enter", "u \u202e enter"} {
		p.press(keys)
		assert.NotContains(t, p.View().Content, "\x1b[2J", keys)
		assert.NotContains(t, p.View().Content, "\u202e", keys)
	}
}

func TestWithoutATerminalNothingIsShown(t *testing.T) {
	assert.False(t, CanShow(&bytes.Buffer{}, &bytes.Buffer{}))
	null, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer null.Close()
	assert.False(t, CanShow(null, &bytes.Buffer{}))
	err = Show(t.Context(), null, &bytes.Buffer{}, Config{})
	require.ErrorIs(t, err, ErrNoTerminal)
	assert.Contains(t, err.Error(), "redlock list")
}
