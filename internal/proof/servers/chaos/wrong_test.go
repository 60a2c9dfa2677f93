//go:build linux

package chaos

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

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

// ending returns the end of a hold.
func ending(events []event, id int64) *event {
	for i := range events {
		if events[i].Type == endEvent && events[i].ID == id {
			return &events[i]
		}
	}
	panic("no such event")
}

// Each of these is one thing that must not happen, done to a calm run. (What else may be wrong with
// holds is tested where they are judged.)
func TestBothJudgesFindWhatIsWrong(t *testing.T) {
	for what, test := range map[string]struct {
		harm  func(first, second []event)
		names string // that are wrong then
	}{
		"nothing": {func(_, _ []event) {}, ""},
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
		"one slot of two holders":    {func(first, _ []event) { ending(first, acquired(first, "permit", 2).ID).At = 2135 }, "permit2#1"},
		"a permit too many": {func(first, second []event) {
			acquired(first, "permit", 1).Names = []string{"permit2#2"}
			acquired(first, "permit", 1).Taken = 2155
			ending(first, acquired(first, "permit", 2).ID).At = 2135
			acquired(second, "permit", 0).Names = []string{"permit2#3"}
		}, "permit2"},
		"a smaller token":    {func(_, second []event) { acquired(second, "lock", 0).Token = 10200 }, "mutex"},
		"void, with a token": {func(_, second []event) { acquired(second, "lock", 0).Type = voidEvent }, ""},
	} {
		first, second := calm(1000), calm(2000)
		test.harm(first, second)
		cases := history.Judge(append(holdsOf(1, first), holdsOf(2, second)...), false)
		var wrong []string
		for _, c := range cases {
			if len(c.Found) > 0 {
				wrong = append(wrong, c.Name)
			}
			assert.Empty(t, c.Disagreement(), what)
		}
		assert.Equal(t, strings.Fields(test.names), append([]string{}, wrong...), what)
	}
}

// What a client noticed too late is no hold, but its token is nobody else's.
func TestALockThatWasOverAtTheFirstLookHasATokenOnly(t *testing.T) {
	first, second := calm(1000), calm(2000)
	e := acquired(first, "lock", 0)
	e.Type, e.At, e.Until = voidEvent, 2012, 1100
	judged := func() []history.Violation {
		return history.All(history.Judge(append(holdsOf(1, first), holdsOf(2, second)...), false))
	}
	assert.Empty(t, judged())
	acquired(second, "lock", 0).Token = e.Token
	assert.NotEmpty(t, judged())
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
