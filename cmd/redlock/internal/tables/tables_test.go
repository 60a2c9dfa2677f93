package tables

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redquorum/redquorum/admin/survey"
	"github.com/redquorum/redquorum/cmd/redlock/internal/terminal"
)

// drawn is a text as it is without colors, behind a line's end.
func drawn(lines []string) string { return "\n" + terminal.Look{}.Text(lines) }

// FENCE, WAITING and ERROR are there if a master has any, so that the rest fits in 80 columns.
func TestAnInspectionHasALinePerMasterAndPermitAndTheVerdict(t *testing.T) {
	i := survey.Inspection{
		Name: "s", Kind: survey.KindSemaphore, Verdict: "free", Quorum: 2, Members: 3,
		Nodes: []survey.NodeInspection{
			{Endpoint: "redis://a:6379", Value: "VALUEVALUE|me\x1b", Owner: "me\x1b", TTLMillis: 9500},
			{Endpoint: "redis://b:6379", TTLMillis: -1},
			{Endpoint: "redis://c:6379"},
		},
		Permits: []survey.Holding{
			{Name: "s#1", Verdict: "held", Owner: "one", TTLMillis: 9500, Fence: 7, Masters: 3},
			{Name: "s#2", Verdict: "free"},
			{Name: "s#3\n", Verdict: "split", Owner: "two", Masters: 1},
		},
	}
	const permits = `
PERMIT  OWNER  HELD  TTL   FENCE  MASTERS
s#1     one    -     9.5s  7      3 of 3
s#3\n   split  -     0s    -      1 of 3

"s" is a semaphore: 1 of 3 permits held.
`
	assert.Equal(t, `
MASTER          VALUE      OWNER   TTL
redis://a:6379  VALUEVAL…  me\x1b  9.5s
redis://b:6379             -       for ever
redis://c:6379  -          -       -
`+permits, drawn(Inspection(&i)))
	i.Nodes[0].Fence, i.Nodes[0].Waiting, i.Nodes[2].Error = 7, 1, "away"
	assert.Equal(t, `
MASTER          VALUE      OWNER   TTL       FENCE  WAITING  ERROR
redis://a:6379  VALUEVAL…  me\x1b  9.5s      7      1        -
redis://b:6379             -       for ever  -      -        -
redis://c:6379  -          -       -         -      -        away
`+permits, drawn(Inspection(&i)))
	i.Permits, i.Kind, i.Verdict, i.Shared = nil, survey.KindLock, "held", true
	i.Readers = []survey.Holding{{Verdict: "held", Value: "READERREADER|r", Owner: "r", TTLMillis: 9500, Masters: 2}}
	assert.Contains(t, drawn(Inspection(&i)), `
READER     OWNER  HELD  TTL   FENCE  MASTERS
READERRE…  r      -     9.5s  -      2 of 3
`)
}

func TestAListIsWrappedOnATerminalAndItsNamesAreNotCut(t *testing.T) {
	name := strings.Repeat("n", 70)
	l := survey.Listing{Complete: true, Quorum: 2, Members: 3, Locks: []survey.Inspection{
		{Name: name, Kind: survey.KindLock, Verdict: "free", Members: 3}, {Name: "x", Kind: survey.KindLock, Verdict: "split", Members: 3},
	}}
	look := terminal.Look{Live: true, Width: func() int { return 20 }}
	want := "\nNAME" + strings.Repeat(" ", 68) + "KIND  STATE  HOLDER  HELD  LEFT  WAITING  MASTERS\n" +
		name + "  lock  free   -       -     -     -        0 of 3\n" +
		"x" + strings.Repeat(" ", 71) + "lock  split  -       -     -     -        0 of 3\n\n"
	assert.True(t, strings.HasPrefix(drawn(Listing(&l, look)), want+"2 locks: 1 split, 1\nfree. Waiting: 0.\n"), drawn(Listing(&l, look)))
	assert.Contains(t, drawn(Listing(&l, terminal.Look{})), want+"2 locks: 1 split, 1 free. Waiting: 0.\n")
}

func TestWhatOthersStoredInTheLogIsShownAndNotObeyed(t *testing.T) {
	assert.Equal(t, "\nThe log is empty.\n", drawn(Events(&survey.Events{Complete: true})))
	assert.Equal(t, "\nNo entries were found.\n", drawn(Events(&survey.Events{})))
	assert.Equal(t, `
TIME                  WHAT    LOCK  HOLDER  BY         WHY
1970-01-01T00:00:01Z  forced  x     me      op\x1b[2J  host7 is gone
1970-01-01T00:00:02Z  added   -     -       -          redis://c:1
`, drawn(Events(&survey.Events{Events: []survey.Event{
		{Millis: 1000, Kind: "forced", Key: "x", Holder: "me", By: "op\x1b[2J", Why: "host7 is gone"},
		{Millis: 2000, Kind: "added", Why: "redis://c:1"},
	}})))
}

func TestTheHistoryOfANameIsTold(t *testing.T) {
	status := 3
	assert.Equal(t, "\nNothing is noted of this name.\n", drawn(History(&survey.Events{Complete: true})))
	assert.Equal(t, "\nNo entries were found.\n", drawn(History(&survey.Events{})))
	told := survey.Events{Events: []survey.Event{
		{Millis: 61_000, BeganMillis: 1000, Kind: "ran", Key: "x", Holder: "me", By: "me", Status: &status, Why: "asked to end"},
		{Millis: 2000, BeganMillis: 2000, Kind: "began", Key: "x", Holder: "me", By: "me"},
		{Millis: 3000, Kind: "lost", Key: "x", Holder: "me", By: "op\x1b[2J", Why: "from the log of all names"},
		{Millis: 64_000, BeganMillis: 4000, SinceMillis: 2000, Kind: "refused", Key: "x", Holder: "me", By: "you", Times: 7},
	}}
	assert.Equal(t, `
TIME                  WHAT     HOLDER  BY         WHY
1970-01-01T00:00:01Z  ran      me      me         after 1m0s; exit status 3; asked to end
1970-01-01T00:00:02Z  began    me      me         no end is noted
1970-01-01T00:00:03Z  lost     me      op\x1b[2J  from the log of all names
1970-01-01T00:01:04Z  refused  me      you        asked for 1m0s; held since 1970-01-01T00:00:02Z; 7 times
`, drawn(History(&told)))
	told.Newest(2, time.UnixMilli(3000))
	assert.Len(t, told.Events, 2)
	told.Newest(2, time.UnixMilli(4000))
	assert.Len(t, told.Events, 1)
}
