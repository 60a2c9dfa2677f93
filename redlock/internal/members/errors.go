package members

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/redlock/internal/members/record"
)

// Why a node has no vote. Both are errors of package redlock.
var (
	ErrNotMember    = errors.New("redlock: not a member of the cluster")
	ErrOtherCluster = errors.New("redlock: member of another cluster")
)

// Conflict returns why no lock can be granted whatever the masters answer; nil if there is no such
// reason.
func (ms *Membership) Conflict() error { return ms.View().Conflict }

// whyNoMemberLocked returns why a node that remembers has no vote: its marker does not name a
// member of the roster.
func (ms *Membership) whyNoMemberLocked(i int) error {
	k, n := &ms.keeper, &ms.members[i]
	switch p := n.place; {
	case k.conflict != nil:
		return fmt.Errorf("%w: %w", ErrOtherCluster, k.conflict)
	case k.roster == nil && ms.cluster != "" && p.Version != (record.Version{}) && p.Cluster != ms.cluster:
		return fmt.Errorf("%w: %s, not %s", ErrOtherCluster, p.Cluster, ms.cluster)
	case k.roster == nil && ms.cluster != "" && p.Version == (record.Version{}):
		return fmt.Errorf("%w: no master of cluster %s remembers it (`redlock init --force` makes a new one)", ErrNotMember, ms.cluster)
	case n.torn && ms.looks:
		longest := ms.longestLocked()
		return fmt.Errorf("%w; the next client that takes a lock lets it wait and come back: `redlock run --name doctor --ttl %v --max-ttl %v --wait %v -- true`",
			pipeline.ErrTorn, longest, longest, 3*ms.quarantineLocked())
	case k.roster == nil && n.unread != nil:
		return fmt.Errorf("%w: it was asked for the list of members, for %v: %w", pipeline.ErrQuarantined, askTimeout, n.unread)
	case k.roster == nil && k.rival != "":
		return fmt.Errorf("%w: the list has masters of two clusters, also of %s, and others that do not answer: leave out those of one", ErrOtherCluster, k.rival)
	case k.roster == nil && p.Version != (record.Version{}) && p.Cluster == k.few:
		return fmt.Errorf("%w: no more masters of this list are of cluster %s than do not answer: start those, or leave out the ones that are gone", pipeline.ErrQuarantined, p.Cluster)
	case k.roster == nil && p.Version != (record.Version{}):
		return fmt.Errorf("%w: no majority of cluster %s is in this list and can be reached%s", pipeline.ErrQuarantined, p.Cluster, ms.unlistedLocked(p.Cluster))
	case k.roster == nil && n.forbids:
		return fmt.Errorf("%w: the user may not read or write %s there, without which it becomes no member of a new cluster", pipeline.ErrQuarantined, pipeline.RegisterKey)
	case k.roster == nil && k.short != nil && p.Cluster == "" && n.stranger == n.text:
		return fmt.Errorf("%w: it is new, and the list also has a master of cluster %s: leave out those of one", pipeline.ErrQuarantined, k.short.Cluster)
	case k.roster == nil && len(ms.awayLocked()) > 0:
		return fmt.Errorf("%w: a new cluster begins when all of its masters are there, also %s", pipeline.ErrQuarantined, strings.Join(ms.awayLocked(), " and "))
	case k.roster == nil && ms.looks:
		return fmt.Errorf("%w: it belongs to no cluster; the first client that takes a lock forms one", pipeline.ErrQuarantined)
	case k.roster == nil:
		return fmt.Errorf("%w: a new cluster is being formed", pipeline.ErrQuarantined)
	case p.Cluster != "" && p.Cluster != k.roster.Cluster:
		return fmt.Errorf("%w: %s, not %s", ErrOtherCluster, p.Cluster, k.roster.Cluster)
	case k.roster.Index(p.Member) < 0:
		return fmt.Errorf("%w: `redlock members add` adds it", ErrNotMember)
	case ms.lives.Over(n.marker, p):
		return fmt.Errorf("%w: it forgot, and its memory marker from before that was brought back", pipeline.ErrQuarantined)
	case p.Version == (record.Version{}):
		return fmt.Errorf("%w: it forgot, and rejoins when another member that remembers answers", pipeline.ErrQuarantined)
	default:
		return fmt.Errorf("%w: it was told another version of the cluster's list", pipeline.ErrQuarantined)
	}
}

// awayLocked returns the masters of the list without which no cluster can be formed: as the keeper
// found it, or if it has not yet, those that are not there.
func (ms *Membership) awayLocked() (missing []string) {
	if len(ms.keeper.missing) > 0 {
		return ms.keeper.missing
	}
	for _, node := range ms.Nodes()[:ms.listed] {
		if node.State() != pipeline.Up {
			missing = append(missing, node.Endpoint())
		}
	}
	return missing
}

// unlistedLocked names the members that are not in the list, as far as one of them tells.
func (ms *Membership) unlistedLocked(cluster string) string {
	short := ms.keeper.short
	if short == nil || short.Cluster != cluster {
		return ""
	}
	var missing []string
	for _, p := range short.Members {
		listed := slices.ContainsFunc(ms.members, func(n member) bool { return n.place.Cluster == cluster && n.place.Member == p.ID }) ||
			slices.ContainsFunc(ms.Nodes(), func(n *pipeline.Node) bool { return n.Endpoint() == p.Endpoint })
		if !listed {
			missing = append(missing, p.Endpoint)
		}
	}
	if len(missing) == 0 {
		return ""
	}
	return fmt.Sprintf("; it takes %[2]d of its %[1]d members: also list %[3]s", len(short.Members), short.Need(), strings.Join(missing, ", "))
}
