package fake

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
)

// sortedSet is a ZSET: members ordered by score, then by name. Insertion moves the tail of a slice,
// which is fine for the few thousand members of a test.
type sortedSet struct {
	scores map[string]float64
	order  []member
}

type member struct {
	name  string
	score float64
}

func compareMembers(a, b member) int {
	return cmp.Or(cmp.Compare(a.score, b.score), strings.Compare(a.name, b.name))
}

func newSortedSet() *sortedSet { return &sortedSet{scores: make(map[string]float64)} }

// add sets a score.
func (z *sortedSet) add(name string, score float64) {
	z.remove(name)
	m := member{name, score}
	i, _ := slices.BinarySearchFunc(z.order, m, compareMembers)
	z.order = slices.Insert(z.order, i, m)
	z.scores[name] = score
}

// remove removes a member and reports whether it was there.
func (z *sortedSet) remove(name string) bool {
	score, ok := z.scores[name]
	if !ok {
		return false
	}
	i, _ := slices.BinarySearchFunc(z.order, member{name, score}, compareMembers)
	z.order = slices.Delete(z.order, i, i+1)
	delete(z.scores, name)
	return true
}

// ranks returns the members from rank start to stop, both included. Negative ranks count from the
// end.
func (z *sortedSet) ranks(start, stop int64) []member {
	size := int64(len(z.order))
	if start < 0 {
		start = max(start+size, 0)
	}
	if stop < 0 {
		stop += size
	}
	stop = min(stop, size-1)
	if start > stop {
		return nil
	}
	return z.order[start : stop+1]
}

// bound is an end of a score range.
type bound struct {
	score float64
	open  bool // excludes the score itself
}

func parseBound(text string) (bound, bool) {
	rest, open := strings.CutPrefix(text, "(")
	score, ok := parseScore(rest)
	return bound{score, open}, ok
}

// between returns the members from low to high.
func (z *sortedSet) between(low, high bound) []member {
	from, _ := slices.BinarySearchFunc(z.order, low, func(m member, b bound) int {
		if m.score < b.score || (b.open && m.score == b.score) {
			return -1
		}
		return 1
	})
	to, _ := slices.BinarySearchFunc(z.order, high, func(m member, b bound) int {
		if m.score < b.score || (!b.open && m.score == b.score) {
			return -1
		}
		return 1
	})
	return z.order[from:max(from, to)]
}

// parseScore reads a double as strtod does.
func parseScore(text string) (float64, bool) {
	score, err := strconv.ParseFloat(text, 64)
	if err != nil && !math.IsInf(score, 0) {
		return 0, false
	}
	return score, !math.IsNaN(score) && !strings.Contains(text, "_")
}

// formatScore writes a double as Redis 7.0 does for RESP2.
func formatScore(score float64) string { return formatNumber(score, 17) }

// formatNumber is C's %.<digits>g.
func formatNumber(x float64, digits int) string {
	switch {
	case math.IsNaN(x) && math.Signbit(x):
		return "-nan"
	case math.IsNaN(x):
		return "nan"
	case math.IsInf(x, 1):
		return "inf"
	case math.IsInf(x, -1):
		return "-inf"
	}
	return strconv.FormatFloat(x, 'g', digits, 64)
}
