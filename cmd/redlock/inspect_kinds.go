package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/internal/ledger"
	"github.com/redquorum/redquorum/redlock"
)

// What a name is that of, beside a lock.
const (
	kindLock      = "lock"
	kindSemaphore = "semaphore"
	kindElection  = "election"
)

// recentTerms is how many terms are looked at. The holder's is among the newest.
const recentTerms = 8

// answers are what the masters told about a name.
type answers struct {
	at      time.Time // when the masters had answered
	status  redlock.Status
	permits redlock.SemaphoreStatus
	terms   ledger.Page
	members int // of which a majority is a quorum
}

// askKinds asks about the semaphore and the election of the name. If it fails, so does the question
// about the lock, which says why.
func (a *answers) askKinds(ctx context.Context, locker *redlock.Locker, name string) {
	var both sync.WaitGroup
	both.Go(func() { a.permits = permitsOf(ctx, locker, name) })
	both.Go(func() { a.terms = termsOf(ctx, locker, name) })
	both.Wait()
}

// permitsOf asks about the semaphore of the name.
func permitsOf(ctx context.Context, locker *redlock.Locker, name string) (status redlock.SemaphoreStatus) {
	if s, err := locker.Semaphore(name, 1); err == nil { // whatever its number
		status, _ = s.Inspect(ctx) //nolint:errcheck // see askKinds
	}
	return status
}

// termsOf asks about the election of the name.
func termsOf(ctx context.Context, locker *redlock.Locker, name string) ledger.Page {
	page, _ := locker.Ledger(ledger.Key{}).Read(ctx, name, 0, recentTerms) //nolint:errcheck // see askKinds
	return page
}

// holding is a permit, or the lock of a reader.
type holding struct {
	Name    string `json:"name"`    // of the permit; that of the lock for a reader
	Verdict string `json:"verdict"` // as that of the lock
	Value   string `json:"value"`
	Owner   string `json:"owner"`
	tenure
	TTLMillis int64 `json:"ttl_ms"` // until no majority of the masters has it; -1: for ever
	Fence     int64 `json:"fence"`  // 0: none
	Masters   int   `json:"masters"`
}

// addKinds adds what the name is that of, beside a lock.
func (i *inspection) addKinds(a *answers) {
	i.Kind, i.Permits, i.Readers = kindLock, []holding{}, readersOf(&a.status, a.at)
	values := map[string]int64{}
	for _, answer := range a.terms.Answers {
		for _, entry := range answer.Entries {
			i.Kind, values[entry.Value], i.NewestTerm = kindElection, entry.Term, max(i.NewestTerm, entry.Term)
		}
	}
	i.Term = values[i.Value]
	if a.permits.Permits == 0 {
		return
	}
	i.Kind = kindSemaphore
	for _, slot := range a.permits.Slots {
		s := newInspection(&slot, a.at)
		permit := holding{Name: slot.Name, Verdict: s.Verdict, Value: s.Value, Owner: s.Owner, tenure: s.tenure}
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
	for at, n := range a.permits.Nodes {
		i.Nodes[at].Waiting += n.Waiting
		i.Nodes[at].Waiters = append(i.Nodes[at].Waiters, n.Waiters...)
	}
}

// readersOf returns the readers that any master knows, in the order of their values.
func readersOf(status *redlock.Status, now time.Time) []holding {
	known, left := map[string]holding{}, map[string][]time.Duration{}
	for _, n := range status.Nodes {
		for _, r := range n.Readers {
			known[r.Value] = holding{Name: status.Name, Value: r.Value, Owner: r.Owner, tenure: tenureOf(r.Since, now)}
			if n.Err == nil {
				left[r.Value] = append(left[r.Value], r.TTL)
			}
		}
	}
	readers := []holding{}
	for value, r := range known {
		r.Verdict, r.Masters, r.TTLMillis = "split", len(left[value]), millisOf(left[value], status.Quorum)
		if r.Masters >= status.Quorum {
			r.Verdict = "held"
		}
		readers = append(readers, r)
	}
	slices.SortFunc(readers, func(a, b holding) int { return cmp.Compare(a.Value, b.Value) })
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

// sentences state the verdict, and what the name is that of.
func (i *inspection) sentences() string {
	var lines []string
	switch {
	case i.noLock != "":
		lines = append(lines, i.noLock+".")
	case i.Kind != kindSemaphore || i.Verdict != "free": // otherwise it is no lock as well
		lines = append(lines, i.sentence())
	}
	switch {
	case i.Kind == kindSemaphore:
		lines = append(lines, fmt.Sprintf("%q is a semaphore: %d of %s held.", i.Name, i.held(i.Permits), cli.Plural(len(i.Permits), "permit")))
	case i.Kind == kindElection && i.Verdict == "free":
		lines = append(lines, fmt.Sprintf("Nobody leads. The newest term on record is %d.", i.NewestTerm))
	case i.Kind == kindElection && i.Verdict == "held" && i.Term == 0:
		lines = append(lines, fmt.Sprintf("It is not elected, or not yet. The newest term on record is %d.", i.NewestTerm))
	}
	if i.Verdict == "held" && i.Kind == kindLock && i.left() < 0 {
		lines = append(lines, "It "+cli.Lasting+", so it is no lock: "+cli.UseAnother+".")
	}
	if names := i.waiters(); names != "" {
		lines = append(lines, "Waiting: "+names+".")
	}
	return strings.Join(lines, "\n")
}

func (i *inspection) held(holdings []holding) (n int) {
	for _, h := range holdings {
		if h.Verdict == "held" {
			n++
		}
	}
	return n
}

func (i *inspection) waiting() (n int) {
	for _, node := range i.Nodes {
		n += node.Waiting
	}
	return n
}

// mostNamed is how many of those that wait are named in a line. --json has more.
const mostNamed = 6

// waiters names those that wait, the first of each master before the second.
func (i *inspection) waiters() string {
	var names []string
	for place := range longestList(i.Nodes) {
		for _, n := range i.Nodes {
			if place < len(n.Waiters) && len(names) < mostNamed {
				names = append(names, named(n.Waiters[place]))
			}
		}
	}
	if more := i.waiting() - len(names); more > 0 && len(names) > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

func longestList(nodes []nodeInspection) (most int) {
	for _, n := range nodes {
		most = max(most, len(n.Waiters))
	}
	return most
}

// rowsOf are the lines of a table of permits or readers. What is free has none.
func (i *inspection) rowsOf(heading string, holdings []holding) string {
	var rows strings.Builder
	for _, h := range holdings {
		if h.Verdict == "free" {
			continue
		}
		name, fence := h.Name, "-"
		if heading == "READER" {
			name = shortened(h.Value)
		}
		if h.Fence != 0 {
			fence = strconv.FormatInt(h.Fence, 10)
		}
		owner := named(h.Owner)
		if h.Verdict != "held" {
			owner = h.Verdict
		}
		fmt.Fprintf(&rows, "%s\t%s\t%s\t%s\t%s\t%d of %d\n", printable(name), owner, h.short(), ttlText(h.TTLMillis), fence, h.Masters, i.Members)
	}
	if rows.Len() == 0 {
		return ""
	}
	return "\n" + heading + "\tOWNER\tHELD\tTTL\tFENCE\tMASTERS\n" + rows.String()
}

func ttlText(millis int64) string {
	if millis < 0 {
		return "for ever"
	}
	return (time.Duration(millis) * time.Millisecond).String()
}

func named(owner string) string {
	if owner == "" {
		return "somebody without a name"
	}
	return printable(owner)
}
