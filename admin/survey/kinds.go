package survey

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/internal/prose"
)

// What a name is that of, beside a lock.
const (
	KindLock      = "lock"
	KindSemaphore = "semaphore"
	KindElection  = "election"
)

// Holding is a permit, or the lock of a reader.
type Holding struct {
	Name    string `json:"name"`    // of the permit; that of the lock for a reader
	Verdict string `json:"verdict"` // as that of the lock
	Value   string `json:"value"`
	Owner   string `json:"owner"`
	Tenure
	TTLMillis int64 `json:"ttl_ms"` // until no majority of the masters has it; -1: for ever
	Fence     int64 `json:"fence"`  // 0: none
	Masters   int   `json:"masters"`
}

// addKinds adds what the name is that of, beside a lock.
func (i *Inspection) addKinds(a *admin.Answers) {
	i.Kind, i.Permits, i.Readers = KindLock, []Holding{}, readersOf(&a.Status, a.At)
	for _, t := range a.Terms {
		i.Kind, i.NewestTerm = KindElection, max(i.NewestTerm, t.Number)
		if t.Value == i.Value {
			i.Term = t.Number
		}
		i.Terms = append(i.Terms, Term{t.Number, t.Value, t.Owner, TenureOf(t.Since, a.At)})
	}
	if a.Semaphore.Permits == 0 {
		return
	}
	i.Kind = KindSemaphore
	for _, slot := range a.Semaphore.Slots {
		s := newInspection(&slot, a.At)
		permit := Holding{Name: slot.Name, Verdict: s.Verdict, Value: s.Value, Owner: s.Owner, Tenure: s.Tenure}
		var left []time.Duration
		for _, n := range slot.Nodes {
			if n.Value != "" && n.Value == s.Value {
				left = append(left, n.TTL)
				permit.Fence = max(permit.Fence, n.Fence)
			}
		}
		permit.Masters, permit.TTLMillis = len(left), millisOf(left, slot.Quorum)
		i.Permits = append(i.Permits, permit)
	}
	// A Locker may have learned of a master, or left one, between the two questions.
	for _, n := range a.Semaphore.Nodes {
		for at := range i.Nodes {
			if of := &i.Nodes[at]; of.Endpoint == n.Endpoint {
				of.Waiting += n.Waiting
				of.Waiters = append(of.Waiters, n.Waiters...)
				break
			}
		}
	}
}

// Term is a term of an election.
type Term struct {
	Term  int64
	Value string // of the leader's lock
	Owner string // of the leader
	Tenure
}

// readersOf returns the readers that any master knows, in the order of their values.
func readersOf(status *admin.Status, now time.Time) []Holding {
	known, left := map[string]Holding{}, map[string][]time.Duration{}
	for _, n := range status.Nodes {
		for _, r := range n.Readers {
			known[r.Value] = Holding{Name: status.Name, Value: r.Value, Owner: r.Owner, Tenure: TenureOf(r.Since, now)}
			if n.Err == nil {
				left[r.Value] = append(left[r.Value], r.TTL)
			}
		}
	}
	readers := []Holding{}
	for value, r := range known {
		r.Verdict, r.Masters, r.TTLMillis = "split", len(left[value]), millisOf(left[value], status.Quorum)
		if r.Masters >= status.Quorum {
			r.Verdict = "held"
		}
		readers = append(readers, r)
	}
	slices.SortFunc(readers, func(a, b Holding) int { return cmp.Compare(a.Value, b.Value) })
	return readers
}

// millisOf returns until when a quorum of masters has what each has for so long; 0 if none does, -1
// if that does not end.
func millisOf(left []time.Duration, quorum int) int64 {
	for i := range left {
		if left[i] < 0 {
			left[i] = 1<<63 - 1
		}
	}
	slices.SortFunc(left, func(a, b time.Duration) int { return cmp.Compare(b, a) })
	switch {
	case len(left) < quorum:
		return 0
	case left[quorum-1] == 1<<63-1:
		return -1
	default:
		return left[quorum-1].Milliseconds()
	}
}

// Sentences state the verdict, and what the name is that of.
func (i *Inspection) Sentences() string {
	var lines []string
	switch {
	case i.NoLock != "":
		lines = append(lines, i.NoLock+".")
	case i.Kind != KindSemaphore || i.Verdict != "free": // otherwise it is no lock as well
		lines = append(lines, i.sentence())
	}
	switch {
	case i.Kind == KindSemaphore:
		lines = append(lines, fmt.Sprintf("%q is a semaphore: %d of %s held.", i.Name, i.Held(i.Permits), prose.Plural(len(i.Permits), "permit")))
	case i.Kind == KindElection && i.Verdict == "free":
		lines = append(lines, fmt.Sprintf("Nobody leads. The newest term on record is %d.", i.NewestTerm))
	case i.Kind == KindElection && i.Verdict == "held" && i.Term == 0:
		lines = append(lines, fmt.Sprintf("It is not elected, or not yet. The newest term on record is %d.", i.NewestTerm))
	}
	if i.Verdict == "held" && i.Kind == KindLock && i.Left() < 0 {
		lines = append(lines, "It "+prose.Lasting+", so it is no lock: "+prose.UseAnother+".")
	}
	if names := i.waiters(); names != "" {
		lines = append(lines, "Waiting: "+names+".")
	}
	return strings.Join(lines, "\n")
}

// Held counts those that are held.
func (i *Inspection) Held(holdings []Holding) (n int) {
	for _, h := range holdings {
		if h.Verdict == "held" {
			n++
		}
	}
	return n
}

// Waiting returns how many processes wait, at all masters together.
func (i *Inspection) Waiting() (n int) {
	for _, node := range i.Nodes {
		n += node.Waiting
	}
	return n
}

// mostNamed is how many of those that wait are named in a line. --json has more.
const mostNamed = 6

// waiters names those that wait, the first of each master before the second.
func (i *Inspection) waiters() string {
	var names []string
	for place := range longestList(i.Nodes) {
		for _, n := range i.Nodes {
			if place < len(n.Waiters) && len(names) < mostNamed {
				names = append(names, Named(n.Waiters[place]))
			}
		}
	}
	if more := i.Waiting() - len(names); more > 0 && len(names) > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

func longestList(nodes []NodeInspection) (most int) {
	for _, n := range nodes {
		most = max(most, len(n.Waiters))
	}
	return most
}

// TTLText is a time to live, in full.
func TTLText(millis int64) string {
	if millis < 0 {
		return "for ever"
	}
	return (time.Duration(millis) * time.Millisecond).String()
}

// Named returns an owner for a sentence.
func Named(owner string) string {
	if owner == "" {
		return "somebody without a name"
	}
	return prose.Printable(owner)
}
