package dashboard

import (
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/admin/survey"
	"github.com/redquorum/redquorum/internal/prose"
	"github.com/redquorum/redquorum/pool"
)

// tellVotes says whether enough masters vote, whether one of them may still go, and if there are
// too few, when there will be enough.
func (p *page) tellVotes(s *snapshot) {
	if s.at.IsZero() {
		p.Problem = "The masters have not been asked yet, or do not answer."
		return
	}
	votes, young, need := 0, 0, s.stats.Quorum
	var waits []time.Duration // of masters that vote again by themselves
	for i := range s.stats.Nodes {
		n := &s.stats.Nodes[i]
		switch {
		case admin.Votes(n):
			votes++
		case n.State == pool.Up && n.Memory == "new":
			young++
		case n.State == pool.Up && n.QuarantinedFor > 0:
			waits = append(waits, n.QuarantinedFor)
		}
	}
	slices.Sort(waits)
	switch missing := need - votes; {
	case missing > 0 && young == len(s.stats.Nodes):
		p.Notes = append(p.Notes, "All masters are new: they vote as soon as a client takes a lock, or with QuarantineStrict after `redlock init`.")
	case missing > 0:
		p.Problem = fmt.Sprintf("Too few masters vote: %d of %d, %s. Nobody can get a lock.", votes, s.stats.Members, prose.Needed(need))
		if missing <= len(waits) {
			p.Problem += fmt.Sprintf(" Enough vote again at %s UTC, if no other one goes.", s.at.Add(waits[missing-1]).UTC().Format(time.TimeOnly))
		}
	case missing == 0 && need < s.stats.Members:
		p.Notes = append(p.Notes, fmt.Sprintf("No master to spare: %d of %d vote, and %s. When one more goes, nobody can get a lock.",
			votes, s.stats.Members, prose.Needed(need)))
	}
}

func (h *Handler) fillMembers(s *snapshot, _ url.Values, p *page) {
	changes := slices.DeleteFunc(logRows(s.events.Events), func(row logRow) bool { return row.Key != "" })
	told := s.members
	change := changeOf(&told)
	if s.membersErr != nil && told.Cluster != "" {
		told.Members = slices.Clone(told.Members)
		for i := range told.Members {
			told.Members[i] = asSeen(told.Members[i], s)
		}
		change = "Too few masters tell of the members now: these were told last. Nothing can be changed until a majority is back."
	} else if err := s.membersErr; err != nil && p.Problem == "" {
		p.Notes = append(p.Notes, prose.Readable(err.Error()))
	}
	p.Content = map[string]any{"Members": &told, "Change": change, "Changes": changes}
}

// asSeen is a member as its connection says, which is newer than what the members told.
func asSeen(m survey.Member, s *snapshot) survey.Member {
	m.State, m.Error = "unknown", ""
	for i := range s.stats.Nodes {
		if n := &s.stats.Nodes[i]; n.Endpoint == m.Endpoint {
			m.State, m.Error = survey.Standing(n)
		}
	}
	return m
}

// changeOf says how far the last change has come, and when there can be another one.
func changeOf(m *survey.Members) string {
	behind := 0
	for _, one := range m.Members {
		if one.Version != m.Version {
			behind++
		}
	}
	switch next := (time.Duration(m.NextMillis) * time.Millisecond).Round(time.Second); {
	case behind > 0 && m.Version > 0:
		return fmt.Sprintf("%d of %s are known to have version %d. "+
			"Until all were told of it, one that is down can be removed or replaced, and nothing else changed.",
			len(m.Members)-behind, prose.Plural(len(m.Members), "member"), m.Version)
	case next > 0:
		return fmt.Sprintf("Another change is possible in %v.", next)
	default:
		return "All members know the version, so a change is possible."
	}
}
