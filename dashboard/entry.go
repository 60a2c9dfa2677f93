package dashboard

import (
	"slices"
	"strings"

	"github.com/redquorum/redquorum/admin/survey"
	"github.com/redquorum/redquorum/clock"
)

// entry is a lock, with what tables sort and search by.
type entry struct {
	survey.Entry
	text   string // name, in lower case
	owners string // all of them, in lower case
	seen   clock.Instant
}

func newEntry(in *survey.Inspection, seen clock.Instant) *entry {
	e := &entry{Entry: survey.NewEntry(in), seen: seen, text: strings.ToLower(in.Name)}
	owners := []string{in.Owner}
	for _, h := range slices.Concat(in.Readers, in.Permits) {
		owners = append(owners, h.Owner)
	}
	if in.Probably != nil {
		owners = append(owners, in.Probably.Owner)
	}
	e.owners = strings.ToLower(strings.Join(owners, "\n"))
	return e
}

// choice is which locks are shown, and how.
type choice struct {
	Query, Owner, State string // texts that they contain; a state
	Sort                string // one of [survey.Orders]
	Descending          bool
	Page                int // from 1
}

// perPage is how many locks a page has.
const perPage = 50

// choose returns the locks of a page, and how many there are on all pages. Entries are in the order
// of their names.
func (c *choice) choose(all []*entry) (shown []*entry, total int) {
	query, owner := strings.ToLower(c.Query), strings.ToLower(c.Owner)
	for _, e := range all {
		if strings.Contains(e.text, query) && strings.Contains(e.owners, owner) && (c.State == "" || c.State == e.Words.State) {
			shown = append(shown, e)
		}
	}
	if c.Sort != "name" {
		slices.SortStableFunc(shown, func(a, b *entry) int { return survey.Orders[c.Sort](&a.Entry, &b.Entry) })
	}
	if c.Descending {
		slices.Reverse(shown)
	}
	total = len(shown)
	c.Page = min(max(c.Page, 1), max((total+perPage-1)/perPage, 1))
	first := (c.Page - 1) * perPage
	return shown[first:min(first+perPage, total)], total
}
