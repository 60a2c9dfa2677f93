package survey

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// Entry is a lock, with what tables sort by.
type Entry struct {
	*Inspection
	Words      Row
	Token      int64
	Held, Left int64 // milliseconds
}

// NewEntry describes a lock.
func NewEntry(in *Inspection) Entry {
	e := Entry{Inspection: in, Words: in.Row(), Token: in.Token(), Held: in.Longest().HeldMillis}
	if e.Words.State == "held" {
		e.Left = in.Left()
	}
	return e
}

// Orders are what tables of locks can be sorted by.
var Orders = map[string]func(a, b *Entry) int{
	"name":    func(a, b *Entry) int { return Natural(a.Name, b.Name) },
	"kind":    func(a, b *Entry) int { return cmp.Compare(a.Words.Kind, b.Words.Kind) },
	"state":   func(a, b *Entry) int { return cmp.Compare(a.Words.State, b.Words.State) },
	"holder":  func(a, b *Entry) int { return Natural(a.Words.Holder, b.Words.Holder) },
	"held":    func(a, b *Entry) int { return cmp.Compare(a.Held, b.Held) },
	"left":    func(a, b *Entry) int { return cmp.Compare(uint64(a.Left), uint64(b.Left)) }, // -1: for ever
	"token":   func(a, b *Entry) int { return cmp.Compare(a.Token, b.Token) },
	"waiting": func(a, b *Entry) int { return cmp.Compare(a.Waiting(), b.Waiting()) },
}

// Natural compares names as people sort them: a number in a name by its size, so that job2 is
// before job10.
func Natural(a, b string) int {
	whole := cmp.Compare(a, b) // of names that differ in leading zeros alone
	for a != "" && b != "" {
		x, y := digits(a), digits(b)
		if x == "" || y == "" {
			if a[0] != b[0] {
				return cmp.Compare(a[0], b[0])
			}
			a, b = a[1:], b[1:]
			continue
		}
		a, b = a[len(x):], b[len(y):]
		x, y = strings.TrimLeft(x, "0"), strings.TrimLeft(y, "0")
		if c := cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y)); c != 0 {
			return c
		}
	}
	return cmp.Or(cmp.Compare(len(a), len(b)), whole)
}

// digits returns those that a text begins with.
func digits(text string) string {
	return text[:len(text)-len(strings.TrimLeft(text, "0123456789"))]
}

// ownerMatcher returns whether an owner matches a pattern, in which * is any text and ? any
// character.
func ownerMatcher(pattern string) func(owner string) bool {
	text := strings.NewReplacer(`\*`, `.*`, `\?`, `.`).Replace(regexp.QuoteMeta(pattern))
	return regexp.MustCompile(`(?s)^` + text + `$`).MatchString
}

// isOf reports whether somebody whose owner matches has the lock, a permit of it, reads it, or
// probably has it.
func (i *Inspection) isOf(matches func(owner string) bool) bool {
	has := func(h Holding) bool { return h.Verdict == "held" && matches(h.Owner) }
	return i.Verdict == "held" && !i.Shared && matches(i.Owner) || i.Probably != nil && matches(i.Probably.Owner) ||
		slices.ContainsFunc(i.Readers, has) || slices.ContainsFunc(i.Permits, has)
}
