package core

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/redlock/internal/members/record"
)

// standings are the sentences of testdata/standing.txt.
var standings = []sentence{
	{regexp.MustCompile(`^(\w+) stands: (.*)$`), (*scene).stands},
	{regexp.MustCompile(`^to (\w+)(?:, (\d+) s later)?: (.*)$`), (*scene).move},
	{regexp.MustCompile(`^all know (\w+)(?:, (\d+) s later)?: (yes|no)$`), (*scene).allKnow},
	{regexp.MustCompile(`^(\w) for (\w+): (.*)$`), (*scene).candidacy},
}

// stands compares what an operator sees of a version.
func (s *scene) stands(words []string) {
	s.checked = true
	standing, err := s.client.Standing(s.named(words[1]), s.reports)
	s.standing = standing
	var few *NoRosterError
	if errors.As(err, &few) {
		assert.Equal(s.t, words[2], fmt.Sprintf("%d of %d", few.Told, few.Need))
		return
	}
	require.NoError(s.t, err)
	got := []string{"next in " + strconv.FormatFloat(standing.Next.Seconds(), 'f', -1, 64) + " s"}
	if len(standing.Behind) > 0 {
		var behind []string
		for _, p := range standing.Behind {
			behind = append(behind, p.ID)
		}
		got = append(got, "behind "+strings.Join(behind, " "))
	}
	if standing.Open {
		got = append(got, "open")
	}
	if standing.Ahead {
		got = append(got, "ahead")
	}
	assert.Equal(s.t, words[2], strings.Join(got, ", "))
}

// later returns the time, so many seconds after the masters of a scene were asked.
func (s *scene) later(seconds string) clock.Instant {
	return clock.Instant(0).Add(time.Duration(s.number(seconds)) * time.Second)
}

func (s *scene) move(words []string) {
	s.checked = true
	var own *record.Roster
	if words[1] != "none" {
		own = s.named(words[1])
	}
	next, propose := s.standing.NextMove(own, s.later(words[2]))
	got := map[Move]string{
		TellThem: "tell", TellBefore: "tell first", LookAgain: "look again", AwaitLocks: "await locks", ChooseAfter: "choose",
	}[next]
	if next == ChooseAfter && propose == nil {
		got = "finish"
	}
	assert.Equal(s.t, words[3], got)
}

func (s *scene) allKnow(words []string) {
	s.checked = true
	assert.Equal(s.t, words[3] == "yes", s.client.AllKnow(s.named(words[1]), s.reports, s.later(words[2])))
}

// candidacy compares whether a master can be a candidate, and asks it.
func (s *scene) candidacy(words []string) {
	s.checked = true
	roster := s.named(words[2])
	id, may := CandidacyOf(s.report(words[1]), roster)
	got := map[Candidacy]string{IsCandidate: "is one", MayBe: "may be", NotYet: "not yet", OfAnother: "of another"}[may]
	if may == MayBe {
		if id == words[1] {
			got += ", as " + id
		}
		now := s.apply([]Change{AskToBe(s.report(words[1]), roster, id)}, words[1])
		_, may = CandidacyOf(&now[0], roster)
		assert.Equal(s.t, IsCandidate, may)
	}
	assert.Equal(s.t, words[3], got)
}
