package survey

import (
	"fmt"
	"slices"
	"time"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/internal/prose"
	"github.com/redquorum/redquorum/redlock"
)

// Inspection is what inspect --json prints. Its field names are documented (redlock help inspect).
type Inspection struct {
	Name    string `json:"name"`
	Verdict string `json:"verdict"` // free, held, split or unknown
	Value   string `json:"value"`
	Owner   string `json:"owner"`
	Tenure
	Digest  string           `json:"digest"` // of what a release by force would take away
	Quorum  int              `json:"quorum"`
	Members int              `json:"members"` // of which that is a majority
	Nodes   []NodeInspection `json:"nodes"`

	Probably *Holding `json:"probably"` // what masters that answered have, if they are too few; nil if nothing

	Kind       string    `json:"kind"`        // lock, semaphore or election
	Readers    []Holding `json:"readers"`     // if the lock is shared
	Permits    []Holding `json:"permits"`     // of a semaphore
	Term       int64     `json:"term"`        // of the holder, if it leads; otherwise 0
	NewestTerm int64     `json:"newest_term"` // on record, of an election; otherwise 0

	History []Event `json:"history,omitempty"` // the newest of it, the oldest first; not in a list

	Terms    []Term `json:"-"` // the newest on record, the newest first
	Shared   bool   `json:"-"` // readers hold it
	Released bool   `json:"-"` // what is told was before that
	unasked  bool   // a bound was met before the masters could be asked about it
	NoLock   string `json:"-"` // why the key is that of no lock; empty if it may be
}

// NodeInspection is what one master told.
type NodeInspection struct {
	Endpoint  string   `json:"endpoint"`
	Value     string   `json:"value"`
	Owner     string   `json:"owner"`
	TTLMillis int64    `json:"ttl_ms"` // -1: does not expire
	Fence     int64    `json:"fence"`
	Waiting   int      `json:"waiting"` // processes that wait for the lock, or a permit, here
	Waiters   []string `json:"waiters"` // the owners of the oldest of them
	Error     string   `json:"error"`   // why the master did not answer
}

// InspectionOf says what the answers about a name mean.
func InspectionOf(a *admin.Answers) Inspection {
	i := newInspection(&a.Status, a.At)
	if a.Stats != nil {
		i.Members = a.Stats.Members
		i.Nodes = slices.DeleteFunc(i.Nodes, func(n NodeInspection) bool {
			return n.Error != "" && slices.ContainsFunc(a.Stats.Nodes, func(s redlock.NodeStats) bool { return s.Endpoint == n.Endpoint && admin.HasLeft(&s) })
		})
	}
	i.addKinds(a)
	i.unasked = a.Unasked
	if i.Verdict == "unknown" {
		i.Probably = probably(&a.Status, a.At)
	}
	i.Digest = i.digest()
	return i
}

func newInspection(status *admin.Status, now time.Time) Inspection {
	i := Inspection{Name: status.Name, Verdict: "split", Value: status.Value, Owner: status.Owner, Quorum: status.Quorum, Members: len(status.Nodes)}
	i.Tenure = TenureOf(status.Since, now)
	answers, empty := 0, 0
	for _, n := range status.Nodes {
		node := NodeInspection{
			Endpoint: n.Endpoint, Value: n.Value, Owner: n.Owner, TTLMillis: n.TTL.Milliseconds(),
			Fence: n.Fence, Waiting: n.Waiting, Waiters: append([]string{}, n.Waiters...),
		}
		i.Shared = i.Shared || len(n.Readers) > 0 && n.Value == i.Value
		if n.TTL < 0 {
			node.TTLMillis = -1
		}
		if n.Err != nil {
			node.Error = prose.Readable(n.Err.Error())
		} else {
			answers++
			if n.Value == "" && n.TTL != 0 { // SET name '', by somebody
				empty++
			}
		}
		i.Nodes = append(i.Nodes, node)
	}
	switch {
	case status.Free:
		i.Verdict = "free"
	case status.Value != "" || empty >= status.Quorum:
		i.Verdict = "held"
	case answers < status.Quorum:
		i.Verdict = "unknown"
	}
	return i
}

// probably returns the value that most of the masters have that told one, although they are too few
// to decide; nil if none told one.
func probably(status *admin.Status, now time.Time) *Holding {
	counts := map[string]int{}
	var most *admin.NodeStatus
	for i := range status.Nodes {
		n := &status.Nodes[i]
		if counts[n.Value]++; n.Value != "" && (most == nil || counts[n.Value] > counts[most.Value]) {
			most = n
		}
	}
	if most == nil {
		return nil
	}
	return &Holding{
		Name: status.Name, Verdict: "unknown", Value: most.Value, Owner: most.Owner, Tenure: TenureOf(most.Since, now),
		TTLMillis: max(most.TTL.Milliseconds(), -1), Fence: most.Fence, Masters: counts[most.Value],
	}
}

// sentence states the verdict.
func (i *Inspection) sentence() string {
	is, have := "is", "have"
	if i.holding() == 1 {
		have = "has"
	}
	if i.Released {
		is, have = "was", "had"
	}
	switch i.Verdict {
	case "free":
		return fmt.Sprintf("%q is free.", i.Name)
	case "held":
		how := "held by " + Named(i.Owner)
		if i.Shared {
			how = "shared by " + prose.Plural(i.Held(i.Readers), "reader")
		} else if i.Term != 0 {
			how = fmt.Sprintf("led by %s in term %d", Named(i.Owner), i.Term)
		}
		how += i.Tenure.Clause()
		return fmt.Sprintf("%q %s %s: %d of %s %s its value.", i.Name, is, how, i.holding(), prose.Plural(i.Members, "master"), have)
	case "split":
		return fmt.Sprintf("%q %s split: no value %s on %d of %s. It %s being acquired or released, or masters were away.",
			i.Name, is, is, i.Quorum, prose.Plural(i.Members, "master"), is)
	default:
		return fmt.Sprintf("Whether %q is held is unknown: fewer than %d of %d masters answered.", i.Name, i.Quorum, i.Members) +
			i.guess()
	}
}

// guess says who probably has the lock; empty if no master told of anybody.
func (i *Inspection) guess() string {
	p := i.Probably
	if p == nil {
		return ""
	}
	have := "have"
	if p.Masters == 1 {
		have = "has"
	}
	return fmt.Sprintf(" Probably it is held by %s%s: %s that answered %s its value, for %s.",
		Named(p.Owner), p.Clause(), prose.Plural(p.Masters, "master"), have, TTLText(p.TTLMillis))
}

func (i *Inspection) holding() (nodes int) {
	for _, n := range i.Nodes {
		if n.Value == i.Value {
			nodes++
		}
	}
	return nodes
}

// answered returns how many masters told what counts.
func (i *Inspection) answered() (n int) {
	for _, node := range i.Nodes {
		if node.Error == "" {
			n++
		}
	}
	return n
}

// IsThere reports whether a master that answered has something under the name, or had when it was
// listed.
func (i *Inspection) IsThere() bool {
	if i.unasked {
		return true
	}
	for _, n := range i.Nodes {
		if n.Value != "" || n.TTLMillis != 0 {
			return true
		}
	}
	return slices.ContainsFunc(i.Permits, func(p Holding) bool { return p.Verdict != "free" })
}
