//go:build linux

package chaos

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/proof/history"
)

// calm returns the events of a client that acquires each kind of lock a few times, one after the
// other, beginning at an instant.
func calm(at clock.Instant) (events []event) {
	for i := range int64(3) {
		for k, h := range []event{
			{Kind: "lock", Names: []string{"mutex"}},
			{Kind: "all", Names: []string{"mutex", "other"}},
			{Kind: "write", Names: []string{"shared"}},
			{Kind: "read", Names: []string{"shared"}, Shared: true},
			{Kind: "permit", Names: []string{"permit2#1"}, Permits: 2},
		} {
			h.Type, h.ID = gotEvent, int64(len(events)+1)
			h.Call, h.Begin, h.At, h.Until, h.Token = at, at+5, at+10, at+100, int64(at)*10+i
			if k == 3 {
				h.Token = events[len(events)-2].Token // that of the writer
			}
			events = append(events, h, event{Type: endEvent, ID: h.ID, At: at + 20})
			at += 30
		}
	}
	return events
}

// acquired returns the nth event that acquires a kind.
func acquired(events []event, kind string, n int) *event {
	for i := range events {
		if events[i].Kind == kind {
			if n == 0 {
				return &events[i]
			}
			n--
		}
	}
	panic("no such event")
}

// judges returns the names that each judge finds wrong.
func judges(t *testing.T, holds []*hold) (ours map[string]bool, porcupines []string) {
	t.Helper()
	ours = map[string]bool{}
	for _, v := range judge(holds) {
		ours[v.name] = true
	}
	porcupines, undecided := check(holds)
	require.Empty(t, undecided)
	return ours, porcupines
}

func TestNothingIsWrongWithACalmRun(t *testing.T) {
	holds := append(holdsOf(1, calm(1000)), holdsOf(2, calm(2000))...)
	assert.Len(t, holds, 36)
	ours, porcupines := judges(t, holds)
	assert.Empty(t, ours)
	assert.Empty(t, porcupines)
}

// Each of these is one thing that must not happen, done to a calm run.
func TestBothJudgesFindWhatIsWrong(t *testing.T) {
	for what, test := range map[string]struct {
		harm  func(first, second []event)
		names string // that are wrong then
	}{
		"acquired before the release": {func(first, second []event) {
			e := acquired(second, "lock", 0)
			e.Call, e.Begin, e.At = 1000, 1000, acquired(first, "lock", 2).At+9
		}, "mutex"},
		"held to the end by one that was killed": {func(first, _ []event) {
			e := acquired(first, "lock", 2)
			e.Until = 5000
			e.ID = 1000 // its end is another's
		}, "mutex"},
		"held for longer after a renewal": {func(first, _ []event) {
			e := acquired(first, "lock", 2)
			*ending(first, e.ID) = event{Type: renewedEvent, ID: e.ID, Until: 5000}
		}, "mutex"},
		"taken for the minimum hold": {func(first, _ []event) { acquired(first, "lock", 2).Taken = 5000 }, "mutex"},
		"one of a set":               {func(first, _ []event) { ending(first, acquired(first, "all", 2).ID).At = 2045 }, "mutex other"},
		"a reader beside a writer":   {func(first, _ []event) { ending(first, acquired(first, "read", 2).ID).At = 2075 }, "shared"},
		"a writer beside a reader":   {func(first, _ []event) { ending(first, acquired(first, "write", 2).ID).At = 2100 }, "shared"},
		"one slot of two holders":    {func(first, _ []event) { ending(first, acquired(first, "permit", 2).ID).At = 2135 }, "permit2#1"},
		"a smaller token":            {func(_, second []event) { acquired(second, "lock", 0).Token = 10200 }, "mutex"},
		"a token again":              {func(first, second []event) { acquired(second, "lock", 0).Token = acquired(first, "all", 2).Token }, "mutex"},
		"a reader behind its writer": {func(_, second []event) { acquired(second, "read", 0).Token = 10200 }, "shared"},
		"a writer behind a reader":   {func(first, second []event) { acquired(second, "write", 0).Token = acquired(first, "read", 2).Token }, "shared"},
	} {
		first, second := calm(1000), calm(2000)
		test.harm(first, second)
		ours, porcupines := judges(t, append(holdsOf(1, first), holdsOf(2, second)...))
		assert.Equal(t, strings.Fields(test.names), porcupines, what)
		assert.Len(t, ours, len(porcupines), "%s: %v", what, ours)
		for _, name := range porcupines {
			assert.True(t, ours[name], "%s: %s", what, name)
		}
	}
}

// ending returns the end of a hold.
func ending(events []event, id int64) *event {
	for i := range events {
		if events[i].Type == endEvent && events[i].ID == id {
			return &events[i]
		}
	}
	panic("no such event")
}

func TestBothJudgesFindAPermitTooMany(t *testing.T) {
	var holds []*hold
	for i := range 3 {
		from := clock.Instant(10 * i)
		holds = append(holds, &hold{
			name: fmt.Sprint("permit2#", i+1), permits: 2, call: from, begin: from, got: from + 1, end: from + 15 + clock.Instant(i%2),
		})
	}
	ours, porcupines := judges(t, holds)
	assert.Empty(t, ours)
	assert.Empty(t, porcupines)
	holds[0].end = 22
	ours, porcupines = judges(t, holds)
	assert.Equal(t, map[string]bool{"permit2": true}, ours)
	assert.Equal(t, []string{"permit2"}, porcupines)
}

// What a client noticed too late is no hold, but its token is nobody else's.
func TestALockThatWasOverAtTheFirstLookHasATokenOnly(t *testing.T) {
	first, second := calm(1000), calm(2000)
	e := acquired(first, "lock", 0)
	e.Type, e.At, e.Until = voidEvent, 2012, 1100
	holds := append(holdsOf(1, first), holdsOf(2, second)...)
	ours, _ := judges(t, holds)
	assert.Empty(t, ours)
	acquired(second, "lock", 0).Token = e.Token
	found := judge(append(holdsOf(1, first), holdsOf(2, second)...))
	assert.NotEmpty(t, found)
}

func TestJudgesOfLongHistoriesSeeAcrossTheirChunks(t *testing.T) {
	var holds []*hold
	for i := range 200 {
		holds = append(holds, holdsOf(i, calm(clock.Instant(1000*i)))...)
	}
	byName := byName(holds)
	assert.Greater(t, len(chunks(byName["mutex"])), 1)
	ours, porcupines := judges(t, holds)
	assert.Empty(t, ours)
	assert.Empty(t, porcupines)
	for _, chunk := range chunks(byName["mutex"])[1:2] {
		second := chunk[1] // behind the one that was brought along
		before := second.token
		second.token = chunk[0].token - 1
		ours, porcupines = judges(t, holds)
		assert.Equal(t, map[string]bool{"mutex": true}, ours)
		assert.Equal(t, []string{"mutex"}, porcupines)
		second.token = before
	}
}

func TestTasksThatAreLostOrDeliveredTwiceAreFound(t *testing.T) {
	for what, test := range map[string]struct {
		events []event
		wrong  bool // as we find
		found  history.Verdict
	}{
		"once":             {[]event{{Type: popEvent, ID: 2}, {Type: poppedEvent, ID: 2, At: 4, Tasks: []string{"a"}}}, false, history.Legal},
		"never":            {nil, true, history.Legal},
		"with a client":    {[]event{{Type: popEvent, ID: 2}}, false, history.Legal},
		"with an error":    {[]event{{Type: popEvent, ID: 2}, {Type: poppedEvent, ID: 2, At: 4, Tasks: []string{"a"}, Doubt: true}}, false, history.Legal},
		"one never pushed": {[]event{{Type: popEvent, ID: 2}, {Type: poppedEvent, ID: 2, At: 4, Tasks: []string{"a", "b"}}}, true, history.Illegal},
		"twice": {[]event{
			{Type: popEvent, ID: 2},
			{Type: poppedEvent, ID: 2, At: 4, Tasks: []string{"a"}},
			{Type: popEvent, ID: 3, At: 5},
			{Type: poppedEvent, ID: 3, At: 6, Tasks: []string{"a"}},
		}, true, history.Illegal},
	} {
		s := newTasks()
		s.add(append([]event{
			{Type: pushEvent, ID: 1, Names: []string{popped}, Tasks: []string{"a"}},
			{Type: pushedEvent, ID: 1, At: 2},
		}, test.events...))
		assert.Equal(t, test.wrong, len(s.judge(10)) > 0, what)
		assert.Equal(t, test.found, history.Check(s.history.History(), history.Queue), what)
	}
	s := newTasks()
	push := []event{{Type: pushEvent, ID: 1, Names: []string{handled}, Tasks: []string{"a"}}, {Type: pushedEvent, ID: 1, At: 2}}
	s.add(push)
	assert.Len(t, s.judge(10), 1, "never handled")
	s.add([]event{{Type: gotEvent, ID: 1, Names: []string{handled + "/a"}}})
	assert.Empty(t, s.judge(10))
}
