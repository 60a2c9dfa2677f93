package driver_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/fakeredis"
)

const (
	memoryKey  = "redquorum:memory"
	membersKey = "redquorum:members"
)

// told is a version of a list of members, as a master was told it.
type told struct {
	cluster string
	number  int64
	members []string // the IDs, in order
	maxTTL  time.Duration
}

// toldBy reads what a master was told; nil if that is nothing, or it has forgotten it.
func toldBy(m master) *told {
	number := versionOf(m)
	register, _, _ := m.get(membersKey)
	lines := strings.Split(register, "\n")
	if number == 0 || len(lines) < 2 {
		return nil
	}
	words := strings.Fields(lines[1]) // version, the one before, cluster, two times, and the members
	if len(words) < 6 || !strings.HasPrefix(words[0], fmt.Sprint(number, ".")) {
		return nil
	}
	t := &told{cluster: words[2], number: number}
	longest, _ := strconv.ParseInt(words[3], 10, 64) //nolint:errcheck // 0 then
	t.maxTTL = time.Duration(longest) * time.Millisecond
	for _, word := range words[5:] {
		id, _, _ := strings.Cut(word, "=")
		t.members = append(t.members, id)
	}
	slices.Sort(t.members)
	return t
}

// memberOf returns the ID that a master has as a member.
func memberOf(m master) string {
	marker, _, _ := m.get(memoryKey)
	_, rest, _ := strings.Cut(marker, " member=")
	id, _, _ := strings.Cut(rest, " ")
	return id
}

// spread is how far a version has spread among its members.
type spread struct {
	told
	by       map[string]bool // members that were told it
	again    bool            // all forgot another one of this number
	majority clock.Instant   // since when most were; 0: not yet
}

// versions are those that masters were told, by cluster and number.
type versions struct {
	*run
	mu  sync.Mutex // guards all
	all map[string]*spread
}

// follow looks at each list of members that a master is told, if operators change it.
func (r *run) follow() {
	v := &versions{run: r, all: make(map[string]*spread)}
	r.known = v
	for i, m := range r.masters {
		if node, ok := m.(*fakeMaster); ok && r.plan.changes {
			node.OnChange(func(c fakeredis.Change) {
				if c.Key != memoryKey && c.Key != membersKey || c.New == "" {
					return
				}
				if c.Key == memoryKey {
					v.tells(i, node, c.Old)
				}
				r.mu.Lock()
				heard := r.heard
				r.mu.Unlock()
				if heard != nil {
					heard(i, c.Key, c.Old, c.New)
				}
			})
		}
	}
}

// tells is told that the marker of a master has changed.
func (v *versions) tells(i int, m master, before string) {
	t := toldBy(m)
	if t == nil {
		return
	}
	older := versionIn(before)
	v.promise("no master goes back to an older version", older <= t.number, "master %d was told version %d, and then %d", i, older, t.number)
	v.mu.Lock()
	defer v.mu.Unlock()
	s := v.all[fmt.Sprint(t.cluster, t.number)]
	if s == nil || v.forgotten(s) {
		v.begins(t)
		s = &spread{told: *t, by: make(map[string]bool), again: s != nil}
		v.all[fmt.Sprint(t.cluster, t.number)] = s
	}
	v.promise("one list for each version", s.maxTTL == t.maxTTL && slices.Equal(s.members, t.members), "master %d was told %+v, and another one %+v", i, t, s.told)
	if id := memberOf(m); slices.Contains(s.members, id) {
		s.by[id] = true
	}
	if s.majority == 0 && len(s.by) > len(s.members)/2 {
		s.majority = v.clock.Now()
	}
}

// forgotten reports whether no master tells a version any more that most of its members were told.
// Where two faults have cut a removal, the removed master may bring the version before back
// (docs/operations.md#restarts).
func (v *versions) forgotten(s *spread) bool {
	return v.plan.cutsChanges() && s.majority != 0 && !slices.ContainsFunc(v.masters, func(m master) bool {
		t := toldBy(m)
		return t != nil && t.cluster == s.cluster && (t.number > s.number || t.number == s.number && slices.Equal(t.members, s.members))
	})
}

// wentBack reports whether any version was forgotten.
func (v *versions) wentBack() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.ContainsFunc(slices.Collect(maps.Values(v.all)), v.replaced)
}

// replaced reports whether a version was forgotten, or took the place of one that was. It needs mu.
func (v *versions) replaced(s *spread) bool { return s.again || v.forgotten(s) }

// hasTwo reports whether there may be two lists for a version, because the first was forgotten.
func (v *versions) hasTwo(cluster string, number int64) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	s := v.all[fmt.Sprint(cluster, number)]
	return s != nil && v.replaced(s)
}

// begins looks at a version of which a master was told first: the last one is known by all that
// stay, and for long enough.
func (v *versions) begins(t *told) {
	last := v.all[fmt.Sprint(t.cluster, t.number-1)]
	if last == nil {
		v.promise("versions follow one another", t.number == 1, "%+v follows none", t)
		return
	}
	var behind []string
	for _, id := range last.members {
		if !last.by[id] && slices.Contains(t.members, id) {
			behind = append(behind, id)
		}
	}
	v.promise("all know the last change when the next one begins", len(behind) == 0, "%+v follows %+v, which %v were not told", t, last.told, behind)
	passed := v.since(last.majority)
	v.promise("MaxTTL passes between two changes", last.majority != 0 && passed >= last.maxTTL, "%+v comes %v after most were told %+v", t, passed, last.told)
}

// versionIn returns the number of the version that an active marker names; 0 for none.
func versionIn(marker string) (number int64) {
	if _, version, found := strings.Cut(marker, " version="); found && strings.HasPrefix(marker, "active ") && !strings.Contains(marker, " joined=") {
		text, _, _ := strings.Cut(version, ".")
		number, _ = strconv.ParseInt(text, 10, 64) //nolint:errcheck // 0 then
	}
	return number
}
