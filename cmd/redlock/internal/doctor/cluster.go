package doctor

import (
	"fmt"

	"github.com/redquorum/redquorum/internal/survey"
	"github.com/redquorum/redquorum/redlock"
)

// cluster is by what votes count.
type cluster struct {
	redlock.Membership // zero if it is not known
	members            int
	flaws              []survey.Flaw
}

// check compares the list with the members. What is no member has a finding of its own.
func (c *cluster) check(l limits) (found []finding) {
	for _, flaw := range c.flaws {
		switch flaw.Check {
		case survey.Missing:
			found = append(found, finding{
				warning, "list", flaw.Endpoint + " " + flaw.What,
				"clients find it, as long as their list has a majority of the members that they can reach; those with " +
					"WithoutDiscovery or NewFromNodes count it as down",
				"put it into the list of every client",
			})
		case survey.Unknown:
			found = append(found, finding{
				warning, "list", flaw.Endpoint + " " + flaw.What,
				"it has no vote, even if it comes back", "take it out of the list of every client",
			})
		}
	}
	if c.Cluster != "" && l.ttl > c.MaxTTL {
		found = append(found, finding{
			warning, "ttl", fmt.Sprintf("the MaxTTL of the cluster is %v, and --ttl is %v", c.MaxTTL, l.ttl),
			"locks with a longer TTL are refused", fmt.Sprintf("use a shorter TTL; or redlock members max-ttl %v", l.ttl),
		})
	}
	return found
}
