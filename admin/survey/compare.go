package survey

import (
	"errors"
	"slices"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// Flaw is something in which a list of masters differs from the members of their cluster. It costs
// no safety: votes count by the members.
type Flaw struct {
	Endpoint string `json:"endpoint"`
	Check    string `json:"check"` // missing, foreign, other_cluster or unknown
	What     string `json:"what"`
}

// Kinds of flaws.
const (
	Missing      = "missing"       // a member that the list lacks
	Foreign      = "foreign"       // no member of any cluster that counts
	OtherCluster = "other_cluster" // a member of another one
	Unknown      = "unknown"       // does not answer, and is no member by this endpoint
)

// CompareList returns in what the list of a Locker differs from the members.
func CompareList(m *admin.Membership, stats *redlock.Stats) (flaws []Flaw) {
	for _, one := range m.Members {
		if !one.Listed {
			flaws = append(flaws, Flaw{one.Endpoint, Missing, "is a member (" + one.ID + "), and missing in the list"})
		}
	}
	for i := range stats.Nodes {
		n := &stats.Nodes[i]
		is := slices.ContainsFunc(m.Members, func(one admin.Member) bool { return one.Endpoint == n.Endpoint })
		switch {
		case !n.Listed:
		case errors.Is(n.Barred, redlock.ErrOtherCluster):
			flaws = append(flaws, Flaw{n.Endpoint, OtherCluster, "belongs to another cluster"})
		case errors.Is(n.Barred, redlock.ErrNotMember):
			flaws = append(flaws, Flaw{n.Endpoint, Foreign, "is no member"})
		case n.State != pool.Up && !is:
			flaws = append(flaws, Flaw{n.Endpoint, Unknown, "does not answer, and no member has this endpoint"})
		}
	}
	return flaws
}
