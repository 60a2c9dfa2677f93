package survey

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/internal/prose"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// Listing is what list --json prints. Its field names are documented (redlock help list).
type Listing struct {
	Complete bool          `json:"complete"` // no lock that is held is missing
	Quorum   int           `json:"quorum"`
	Members  int           `json:"members"` // of which that is a majority
	Locks    []Inspection  `json:"locks"`
	LeftOut  LeftOut       `json:"left_out"`
	Nodes    []NodeListing `json:"nodes"`

	Idle []Inspection `json:"-"` // elections that were come across and in which nobody leads
}

// LeftOut counts the names that are those of no lock, and those of which the user may not know.
type LeftOut struct {
	Lasting   int `json:"lasting"`
	Large     int `json:"large"`
	OtherType int `json:"other_type"`
	Forbidden int `json:"forbidden"`
}

// Total counts all of them.
func (l LeftOut) Total() int { return l.Lasting + l.Large + l.OtherType + l.Forbidden }

// NodeListing is how one master was listed.
type NodeListing struct {
	Endpoint string `json:"endpoint"`
	Keys     int    `json:"keys"`    // looked at, rounded up to whole steps
	Locks    int    `json:"locks"`   // found
	Bounded  bool   `json:"bounded"` // --scan or --limit ended the scan
	Votes    bool   `json:"votes"`   // if not, it may have forgotten locks
	Error    string `json:"error"`   // why the master was not listed

	err     error // nil if Error is empty
	lacking error // why locks that are held may be missing there; nil if they are not
}

// isForbidden reports whether the master answered, and the user may not list.
func (n *NodeListing) isForbidden() bool {
	var forbidden *admin.ForbiddenError
	return errors.As(n.err, &forbidden)
}

// ErrTooFew says that fewer than a majority of the masters answer.
var ErrTooFew = errors.New("too few masters answer")

// Failure returns why a majority was not listed, [ErrTooFew] or a lack of rights; nil if one was.
func (l *Listing) Failure() error {
	answering, forbidden, voting := 0, 0, 0
	for i := range l.Nodes {
		switch n := &l.Nodes[i]; {
		case n.isForbidden():
			answering++
			forbidden++
		case n.err == nil && n.lacking == nil:
			voting++
			answering++
		case n.err == nil:
			answering++
		}
	}
	switch {
	case answering < l.Quorum:
		return fmt.Errorf("%w: %d of %d, %s", ErrTooFew, answering, l.Members, prose.Needed(l.Quorum))
	case forbidden == answering:
		return errors.New("the user may not list locks: allow scan and strlen to it (docs/operations.md has the rule)")
	case forbidden == 0 && voting < l.Quorum:
		return fmt.Errorf("%w that vote: %d of %d, %s", ErrTooFew, voting, l.Members, prose.Needed(l.Quorum))
	default:
		return nil
	}
}

// ListingOf says what the masters told about all locks. With an owner it has those only of which
// somebody whose owner matches has the lock, a permit of it, reads it, or probably has it. In an
// owner, * is any text and ? any character; an empty one is any owner.
func ListingOf(told *admin.Scanned, owner string) Listing {
	l := Listing{Members: told.Stats.Members, Quorum: told.Stats.Quorum, Locks: []Inspection{}}
	matches := ownerMatcher(cmp.Or(owner, "*"))
	for i := range told.Answers {
		switch in := InspectionOf(&told.Answers[i]); {
		case in.IsThere():
			if owner == "" || in.isOf(matches) {
				l.Locks = append(l.Locks, in)
			}
		case in.NewestTerm > 0:
			l.Idle = append(l.Idle, in)
		}
	}
	slices.SortFunc(l.Locks, func(a, b Inspection) int { return Natural(a.Name, b.Name) })
	l.addMasters(told)
	// A majority that holds a lock has a master in common with every set of this size.
	l.Complete = l.scanned() >= l.sufficient() && l.LeftOut.Forbidden == 0
	return l
}

// addMasters adds how each master was looked through, and what was left out.
func (l *Listing) addMasters(told *admin.Scanned) {
	// Where no master was ever used, none has forgotten anything.
	unused := !slices.ContainsFunc(told.Stats.Nodes, func(n redlock.NodeStats) bool { return n.Memory != "new" })
	candidates, others := map[string]bool{}, map[string]admin.Reason{}
	for i := range told.Masters {
		s := &told.Masters[i]
		for _, name := range s.Names {
			candidates[name] = true
		}
		maps.Copy(others, s.LeftOut)
		stats := &told.Stats.Nodes[i]
		if admin.HasLeft(stats) {
			continue
		}
		node := NodeListing{
			Endpoint: s.Endpoint, Keys: s.Keys, Locks: len(s.Names), Bounded: s.Bounded, Votes: admin.Votes(stats), err: s.Err,
		}
		if stats.State == pool.Closed && stats.Barred != nil {
			node.err = stats.Barred // which is why it was closed
		}
		if !unused {
			node.lacking = stats.Barred
		}
		if node.err != nil {
			node.Error = node.err.Error()
		}
		l.Nodes = append(l.Nodes, node)
	}
	for name, why := range others {
		if !candidates[name] {
			l.LeftOut.add(why)
		}
	}
}

// sufficient returns how many masters have every lock that is held.
func (l *Listing) sufficient() int { return l.Members - l.Quorum + 1 }

func (l *LeftOut) add(why admin.Reason) {
	switch why {
	case admin.Lasting:
		l.Lasting++
	case admin.Large:
		l.Large++
	case admin.OtherType:
		l.OtherType++
	case admin.Forbidden:
		l.Forbidden++
	}
}

// scanned returns how many masters were scanned to the end, and have forgotten nothing.
func (l *Listing) scanned() (full int) {
	for _, n := range l.Nodes {
		if n.err == nil && n.lacking == nil && !n.Bounded {
			full++
		}
	}
	return full
}

// Sentences count the locks, and say what is missing.
func (l *Listing) Sentences() []string {
	lines := []string{l.Count()}
	if n := l.LeftOut.Total(); n > 0 {
		lines = append(lines, fmt.Sprintf("Left out: %s.", l.LeftOut.text()))
	}
	for i := range l.Nodes {
		switch n := &l.Nodes[i]; {
		case n.err != nil:
			lines = append(lines, fmt.Sprintf("%s was not listed: %s", n.Endpoint, n.Error))
		case n.lacking != nil:
			lines = append(lines, fmt.Sprintf("%s does not vote, and may lack locks: %v", n.Endpoint, n.lacking))
		}
	}
	lines = append(append(lines, l.Bounded()...), l.undecided()...)
	if l.Complete && l.scanned() < l.Members {
		lines = append(lines, fmt.Sprintf("%d of %s were listed in full: every lock that is held is there.",
			l.scanned(), prose.Plural(l.Members, "master")))
	}
	return append(lines, l.Missing()...)
}

// Undecided says why it is not known who holds what, and what is likely.
func (l *Listing) undecided() []string {
	unknown, probable, answered := 0, 0, 0
	for i := range l.Locks {
		if in := &l.Locks[i]; in.Verdict == "unknown" {
			unknown++
			if in.Probably != nil {
				probable++
			}
			answered = max(answered, in.answered())
		}
	}
	if unknown == 0 {
		return nil
	}
	text := fmt.Sprintf("WHO HOLDS %s IS UNKNOWN: %d of %s told what counts, %s. Reasons are above.",
		strings.ToUpper(prose.Plural(unknown, "lock")), answered, prose.Plural(l.Members, "master"), prose.Needed(l.Quorum))
	if probable > 0 {
		text += fmt.Sprintf(" What is marked with ? is probably held: a master has it (%d). It may also be an attempt "+
			"that got no majority, or a lock that has ended elsewhere.", probable)
	}
	return []string{text}
}

// Bounded says which masters were not listed to the end.
func (l *Listing) Bounded() (lines []string) {
	for _, n := range l.Nodes {
		if n.Bounded {
			lines = append(lines, fmt.Sprintf("%s may have more: stopped after about %s and %s. Give a narrower PATTERN, "+
				"or a larger --scan or --limit.", n.Endpoint, prose.Plural(n.Keys, "key"), prose.Plural(n.Locks, "lock")))
		}
	}
	return lines
}

// Missing says so if locks that are held may be missing.
func (l *Listing) Missing() []string {
	if l.Complete {
		return nil
	}
	if n := l.LeftOut.Forbidden; n > 0 && l.scanned() >= l.sufficient() {
		return []string{fmt.Sprintf("LOCKS MAY BE MISSING: the user may not read %s.", prose.Plural(n, "key"))}
	}
	return []string{fmt.Sprintf("LOCKS MAY BE MISSING: %d of %s were listed in full, %s.",
		l.scanned(), prose.Plural(l.Members, "master"), prose.Needed(l.sufficient()))}
}

// Count says how many locks there are: 3 locks: 2 held, 1 split. 4 wait.
func (l *Listing) Count() string {
	states, waiting := map[string]int{}, 0
	for i := range l.Locks {
		states[l.Locks[i].State()]++
		waiting += l.Locks[i].Waiting()
	}
	return CountText(states, waiting, l.Complete)
}

// CountText says how many locks there are, by their states.
func CountText(states map[string]int, waiting int, complete bool) string {
	all := 0
	for _, n := range states {
		all += n
	}
	switch {
	case all == 0 && complete:
		return "No locks."
	case all == 0:
		return "No locks were found."
	}
	var parts []string
	for _, state := range []string{"held", "split", "free", "unknown"} {
		if n := states[state]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, state))
		}
	}
	return fmt.Sprintf("%s: %s. Waiting: %d.", prose.Plural(all, "lock"), strings.Join(parts, ", "), waiting)
}

func (l LeftOut) text() string {
	var parts []string
	for _, one := range []struct {
		n    int
		what string
	}{
		{l.Lasting, "without a TTL"},
		{l.Large, "too large for a lock"},
		{l.OtherType, "of another type"},
		{l.Forbidden, "that the user may not read"},
	} {
		if one.n > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", prose.Plural(one.n, "key"), one.what))
		}
	}
	return strings.Join(parts, ", ")
}
