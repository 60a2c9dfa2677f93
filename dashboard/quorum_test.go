package dashboard

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/admin/survey"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// noon is when the masters were asked.
var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// seen is what is known of masters: v votes, d is down, n is new, and a digit has no vote for so
// many minutes.
func seen(masters string) *snapshot {
	s := &snapshot{at: noon, stats: redlock.Stats{Members: len(masters), Quorum: len(masters)/2 + 1}}
	for i, c := range masters {
		n := redlock.NodeStats{Stats: pool.Stats{Endpoint: "redis://" + string(rune('a'+i)) + ":1", State: pool.Up}, Memory: "active"}
		switch {
		case c == 'd':
			n.State, n.Err = pool.Down, errors.New("refused")
		case c == 'n':
			n.Memory, n.Barred, n.QuarantinedFor = "new", pool.ErrQuarantined, time.Minute
		case c != 'v':
			n.Memory, n.Barred, n.QuarantinedFor = "lost", pool.ErrQuarantined, time.Duration(c-'0')*time.Minute
		}
		s.stats.Nodes = append(s.stats.Nodes, n)
	}
	return s
}

func TestThePagesTellHowManyMastersVoteAndWhenThereAreEnough(t *testing.T) {
	const few, spare = "Nobody can get a lock.", "No master to spare"
	for masters, want := range map[string]struct{ problem, note string }{
		"vvv":   {},
		"v":     {},
		"vv":    {}, // two of two: there never was one
		"vvvvd": {},
		"vvd":   {note: spare + ": 2 of 3 vote, and 2 are needed."},
		"vv1":   {note: spare},
		"vdd":   {problem: "Too few masters vote: 1 of 3, 2 are needed. " + few},
		"v1d":   {problem: few + " Enough vote again at 12:01:00 UTC, if no other one goes."},
		"d3v21": {problem: "at 12:02:00 UTC"},
		"nnn":   {note: "All masters are new"},
		"nnd":   {problem: few},
	} {
		p := &page{}
		p.tellVotes(seen(masters))
		notes := strings.Join(p.Notes, "\n")
		assert.Contains(t, p.Problem, want.problem, masters)
		assert.Contains(t, notes, want.note, masters)
		assert.Equal(t, [2]bool{want.problem != "", want.note != ""}, [2]bool{p.Problem != "", notes != ""}, masters)
		assert.Equal(t, strings.ContainsAny(masters, "123") && want.problem != "", strings.Contains(p.Problem, "Enough"), masters)
	}
}

func TestTheMembersThatWereToldLastAreShownWhileTooFewTell(t *testing.T) {
	s := seen("vd1")
	s.members = survey.Members{Cluster: "C", Version: 2, Quorum: 2, Members: []survey.Member{
		{ID: "A1", Endpoint: "redis://a:1", State: survey.MemberVotes, Version: 2},
		{ID: "B1", Endpoint: "redis://b:1", State: survey.MemberVotes, Version: 2},
		{ID: "E1", Endpoint: "redis://e:1", State: survey.MemberVotes, Version: 2},
	}}
	s.membersErr = errors.New("2 granted, 2 needed")
	p := &page{}
	p.tellVotes(s)
	(&Handler{}).fillMembers(s, nil, p)
	content := p.Content.(map[string]any)
	assert.Contains(t, content["Change"], "these were told last")
	var states []string
	for _, m := range content["Members"].(*survey.Members).Members {
		states = append(states, m.State+" "+m.Error)
	}
	assert.Equal(t, []string{"votes ", "down refused", "unknown "}, states)
	assert.Empty(t, p.Notes, "the problem says it")
	assert.Equal(t, survey.MemberVotes, s.members.Members[1].State, "a snapshot does not change")
}

func TestAMasterThatHasWhatIsProbablyTheLocksValueHoldsIt(t *testing.T) {
	lock := held("x", "me")
	lock.Verdict, lock.Value, lock.Probably = "unknown", "", &survey.Holding{Value: lock.Value, Owner: "me"}
	lock.Nodes[1].Value = "ANOTHERVALUE"
	d := open(t, &script{locks: []survey.Inspection{lock}}, settings{})
	page := get(t, d, "/lock?name=x")
	assert.Equal(t, []int{1, 1}, []int{strings.Count(page, "holds it"), strings.Count(page, "has another value")})
}

func TestAMasterWithoutRoomIsSaidToHaveNone(t *testing.T) {
	for memory, want := range map[int64]string{100: "its memory is full: it grants no locks", 90: "its memory is nearly full", 89: ""} {
		n := seen("v").stats.Nodes[0]
		assert.Equal(t, want, newMasterRow(&n, &admin.Vitals{Memory: memory, MaxMemory: 100}, noon).Why)
	}
	n := seen("v").stats.Nodes[0]
	assert.Empty(t, newMasterRow(&n, &admin.Vitals{Memory: 100}, noon).Why, "without a limit")
}
