package survey

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redquorum/redquorum/internal/prose"
)

// State is the verdict; that of a semaphore is held if one of its permits is.
func (i *Inspection) State() string {
	if i.Kind == KindSemaphore && i.Verdict == "free" {
		switch {
		case i.Held(i.Permits) > 0:
			return "held"
		case slices.ContainsFunc(i.Permits, func(p Holding) bool { return p.Verdict == "split" }):
			return "split"
		}
	}
	return i.Verdict
}

// Holder names who holds the lock, by its value if it has no owner.
func (i *Inspection) Holder() string {
	switch {
	case i.Kind == KindSemaphore && i.Verdict != "held":
		return fmt.Sprintf("%d of %s", i.Held(i.Permits), prose.Plural(len(i.Permits), "permit"))
	case i.Shared:
		return prose.Plural(i.Held(i.Readers), "reader")
	default:
		return holderOf(i.Owner, i.Value)
	}
}

func holderOf(owner, value string) string {
	if owner == "" {
		return Shortened(value)
	}
	return prose.Printable(owner)
}

// Left returns until when a majority has the lock, or the first of the permits; -1: for ever.
func (i *Inspection) Left() int64 {
	if i.Kind == KindSemaphore && i.Verdict != "held" {
		first := int64(-1)
		for _, p := range i.Permits {
			if p.Verdict == "held" && p.TTLMillis >= 0 && (first < 0 || p.TTLMillis < first) {
				first = p.TTLMillis
			}
		}
		return first
	}
	var left []time.Duration
	for _, n := range i.Nodes {
		if n.Value == i.Value && n.TTLMillis != 0 && n.Error == "" {
			left = append(left, time.Duration(n.TTLMillis)*time.Millisecond)
		}
	}
	return millisOf(left, i.Quorum)
}

// Token returns the fencing token of the holder: the number that a quorum of the masters with its
// value is at. 0 if there is none.
func (i *Inspection) Token() int64 {
	var numbers []int64
	for _, n := range i.Nodes {
		if n.Value == i.Value && n.Error == "" {
			numbers = append(numbers, n.Fence)
		}
	}
	slices.SortFunc(numbers, func(a, b int64) int { return cmp.Compare(b, a) })
	if i.Value == "" || len(numbers) < i.Quorum || i.Shared {
		return 0
	}
	return cmp.Or(i.Term, numbers[max(i.Quorum, 1)-1])
}

// Holders returns how many masters have the lock; of what has no majority, how many have anything;
// of a semaphore, how many have the permit that the fewest have.
func (i *Inspection) Holders() (masters int) {
	if i.Kind == KindSemaphore && i.Verdict == "free" {
		for _, p := range i.Permits {
			if p.Verdict == "held" && (masters == 0 || p.Masters < masters) {
				masters = p.Masters
			}
		}
		return masters
	}
	for _, n := range i.Nodes {
		if (n.Value != "" || n.TTLMillis != 0) && (i.Verdict != "held" || n.Value == i.Value) {
			masters++
		}
	}
	return masters
}

// LeftText is a remaining time as people read it: 9.8s, 45s, 1m5s.
func LeftText(millis int64) string {
	left := time.Duration(millis) * time.Millisecond
	switch {
	case millis < 0:
		return TTLText(millis)
	case left < 10*time.Second:
		return left.Truncate(100 * time.Millisecond).String()
	default:
		return left.Truncate(time.Second).String()
	}
}

// Values returns those of all who hold the lock, its permits, or read it.
func (i *Inspection) Values() (values []string) {
	if i.Verdict == "held" && !i.Shared {
		values = append(values, i.Value)
	}
	for _, h := range slices.Concat(i.Permits, i.Readers) {
		if h.Verdict == "held" {
			values = append(values, h.Value)
		}
	}
	return values
}

// Shortened returns enough of a value to tell two apart. With all of it, anyone can release the
// lock.
func Shortened(value string) string {
	const shown = 8
	random, _, _ := strings.Cut(value, "|")
	if len(random) <= shown {
		return prose.Printable(random)
	}
	return prose.Printable(random[:shown]) + "…"
}

// Row is a lock in a table of locks, in words. What is not known, or not the case, is a dash.
type Row struct {
	Name    string
	Kind    string // also shared
	State   string
	Holder  string // behind it a ? if it is only probable
	Held    string // for how long
	Left    string
	Waiting string // how many wait
	Masters string // how many of how many have it
}

// Cells returns the fields in their order.
func (r Row) Cells() []string {
	return []string{r.Name, r.Kind, r.State, r.Holder, r.Held, r.Left, r.Waiting, r.Masters}
}

// Row describes the lock.
func (i *Inspection) Row() Row {
	r := Row{
		Name: prose.Printable(i.Name), Kind: i.Kind, State: i.State(), Holder: "-", Held: "-", Left: "-", Waiting: "-",
		Masters: fmt.Sprintf("%d of %d", i.Holders(), i.Members),
	}
	if i.Shared && r.Kind == KindLock {
		r.Kind = "shared"
	}
	switch {
	case r.State == "held":
		r.Holder, r.Held, r.Left = i.Holder(), i.Longest().Short(), LeftText(i.Left())
	case i.Probably != nil:
		r.Holder, r.Held, r.Left = holderOf(i.Probably.Owner, i.Probably.Value)+"?", i.Probably.Short(), LeftText(i.Probably.TTLMillis)
	}
	if n := i.Waiting(); n > 0 {
		r.Waiting = strconv.Itoa(n)
	}
	return r
}
