package survey

import (
	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/internal/prose"
	"github.com/redquorum/redquorum/internal/trouble"
)

// Members is what members --json prints. Its field names are documented (redlock help members).
type Members struct {
	Cluster    string   `json:"cluster"`
	Version    int64    `json:"version"`
	MaxTTL     string   `json:"max_ttl"` // a duration: 1m0s
	Quorum     int      `json:"quorum"`
	NextMillis int64    `json:"next_ms"` // until another change is possible
	Members    []Member `json:"members"`
	List       []Flaw   `json:"list"` // what is wrong with the list of the command line
}

// Member is one of the masters by which votes count.
type Member struct {
	ID       string `json:"id"`
	Endpoint string `json:"endpoint"`
	Name     string `json:"server_name,omitempty"` // of its certificate, if that is not the host
	State    string `json:"state"`                 // votes, no vote or down
	Version  int64  `json:"version"`               // that it was told; 0 if that is not known
	Listed   bool   `json:"listed"`                // in the list of the command line
	Error    string `json:"error"`                 // why its vote does not count
}

// The states of a member.
const (
	MemberVotes  = "votes"
	MemberBarred = "no vote"
	MemberDown   = "down"
)

// MembersOf describes a membership, and what is wrong with a list of masters.
func MembersOf(m *admin.Membership, flaws []Flaw) Members {
	v := Members{
		Cluster: m.Cluster, Version: m.Version, MaxTTL: m.MaxTTL.String(), Quorum: len(m.Members)/2 + 1, NextMillis: m.Next.Milliseconds(),
		List: append([]Flaw{}, flaws...),
	}
	for _, one := range m.Members {
		row := Member{ID: one.ID, Endpoint: one.Endpoint, Name: one.ServerName, State: MemberVotes, Version: one.Version, Listed: one.Listed}
		switch {
		case !one.Up:
			row.State = MemberDown
		case !one.Voting:
			row.State = MemberBarred
		}
		if row.State != MemberVotes && one.Err != nil {
			row.Error = prose.Readable(one.Err.Error() + trouble.Of(one.Err).Hint())
		}
		v.Members = append(v.Members, row)
	}
	return v
}
