package members

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/internal/trouble"
	"github.com/redquorum/redquorum/redlock/internal/members/record"
)

// Why returns why a node's vote does not count; nil if it does or nothing is known about it.
func (ms *Membership) Why(i int) error {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	return ms.whyLocked(i)
}

// Outcome is Why, unless it will be known in a moment. Both are answered under one mu, so they are
// of one state of affairs.
func (ms *Membership) Outcome(i int) (why error, known bool) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	return ms.whyLocked(i), !ms.undecidedLocked(i, ms.View())
}

// whyLocked goes from what no time changes to what a moment does: the first that holds is what an
// operator can do something about. It decides nothing: the View has, and this only tells of it.
func (ms *Membership) whyLocked(i int) error {
	n := &ms.members[i]
	now := ms.clock.Now()
	switch {
	case n.free() && n.position.of == "":
		return fmt.Errorf("%w: it was not added", ErrNotMember)
	case n.free():
		return trouble.Mark(trouble.Removed, fmt.Errorf("%w: it was removed", ErrNotMember))
	case ms.belief.Conflict != nil && n.phase == phaseVoting: // also of ours
		return ms.whyNoMemberLocked(i)
	case ms.View().Voting.Has(i) || !n.seen:
		return nil
	case n.duplicate >= 0:
		return duplicateError{of: ms.Nodes()[n.duplicate].Endpoint(), runID: n.identity.RunID}
	case n.phase == phaseProofless && ms.View().Roster != nil: // no time changes that
		return fmt.Errorf("%w: the user may not read or write %s there, by which it proves that it is a member and remembers", pipeline.ErrQuarantined, pipeline.MemoryKey)
	case n.phase == phaseProofless:
		return fmt.Errorf("%w for another %v: %s", pipeline.ErrQuarantined, n.left(now), n.whyProofless(now))
	case n.phase == phaseVoting:
		return ms.whyNoMemberLocked(i)
	case n.err != nil:
		return trouble.Mark(cmp.Or(trouble.Of(n.err), trouble.Quarantined),
			fmt.Errorf("%w: its memory marker cannot be read or written: %w", pipeline.ErrQuarantined, n.err))
	case n.marker.State == record.MarkerLater:
		return trouble.Mark(trouble.LaterMarker, fmt.Errorf("%w: its memory marker was written by a later version of redquorum, by which this one cannot act; update this client", pipeline.ErrQuarantined))
	case n.until <= now && ms.looks:
		return trouble.Mark(trouble.Unasked, fmt.Errorf("%w: it votes once a client that takes locks has asked it", pipeline.ErrQuarantined))
	case n.until <= now:
		return fmt.Errorf("%w: it is not known yet whether it remembers", pipeline.ErrQuarantined)
	case n.unnamed():
		return fmt.Errorf("%w for another %v: its marker was written by users who may not use INFO, so it may have restarted unnoticed", pipeline.ErrQuarantined, n.left(now))
	case n.marker.State == record.MarkerActive:
		return fmt.Errorf("%w for another %v: a different server answers here, or it forgot unnoticed", pipeline.ErrQuarantined, n.left(now))
	case n.marker.IsNew() && ms.belief.Roster != nil && ms.clientLocked().IndexOf(i, ms.belief.Roster) < 0:
		return fmt.Errorf("%w: it is new; `redlock members add` adds it", ErrNotMember)
	case n.marker.IsNew():
		return fmt.Errorf("%w%s", pipeline.ErrQuarantined, ms.whyNewLocked(n.left(now)))
	default:
		return fmt.Errorf("%w for another %v: it lost its keys, or was replaced, and may have forgotten locks", pipeline.ErrQuarantined, n.left(now))
	}
}

// duplicateError is [pipeline.ErrDuplicate] that names the other node instead of saying that there
// is one.
type duplicateError struct{ of, runID string }

func (e duplicateError) Error() string {
	return fmt.Sprintf("%v: the same server as %s (run_id %s)", pipeline.ErrRefused, e.of, e.runID)
}

func (e duplicateError) Unwrap() error { return pipeline.ErrDuplicate }

// left returns how long the quarantine will last.
func (n *member) left(now clock.Instant) time.Duration {
	return roughly(n.until.Sub(now))
}

// whyNewLocked returns what a new master waits for, and for how long. It looks at all masters,
// since a new one votes as soon as a new cluster is confirmed, which takes all of them.
func (ms *Membership) whyNewLocked(left time.Duration) string {
	wait := fmt.Sprintf(" for another %v: ", left)
	var missing []string
	for i := range ms.members {
		n := &ms.members[i]
		switch {
		case n.free():
		case !n.seen || n.duplicate >= 0 || ms.Nodes()[i].State() != pipeline.Up:
			missing = append(missing, ms.Nodes()[i].Endpoint())
		case !n.marker.IsNew() || n.known != "":
			return wait + "it restarted without its keys, or is a new server, and may have forgotten locks"
		}
	}
	switch {
	case ms.mode == Strict && !ms.looks: // who only looks does not know the mode of those who lock
		return wait + "a new master votes then, or at once after `redlock init`"
	case len(missing) > 0: // neither time nor `redlock init` helps
		return ": a new cluster begins when all of its masters are there, also " + strings.Join(missing, " and ")
	case ms.looks:
		return wait + "all masters are new: they vote once a client takes a lock (with QuarantineStrict, after `redlock init`)"
	default:
		return wait + "a new master votes then, or in about a second if no client knew it before"
	}
}

// whyProofless returns why a node without proof does not vote.
func (n *member) whyProofless(now clock.Instant) string {
	id := n.identity
	if n.before.Connection != 0 && n.before.RunID != id.RunID {
		ago := roughly(now.Sub(id.Connected))
		return fmt.Sprintf("a different server has answered here for %v, and may not know all locks", ago)
	}
	ago := roughly(now.Sub(id.Started))
	return fmt.Sprintf("its server started %v ago and may have forgotten locks", ago)
}

// QuarantinedFor returns for how long a node's vote will not count, as far as is known; 0 if it
// counts.
func (ms *Membership) QuarantinedFor(i int) time.Duration {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	if n := &ms.members[i]; n.seen && !ms.View().Voting.Has(i) {
		return n.left(ms.clock.Now())
	}
	return 0
}

// Memory returns the state of a node's marker as a word.
func (ms *Membership) Memory(i int) string {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	switch ms.members[i].marker.State {
	case record.MarkerNew:
		return record.WordNew
	case record.MarkerLost:
		return record.WordLost
	case record.MarkerActive:
		return record.WordActive
	case record.MarkerAbsent:
		if ms.looks && ms.members[i].phase == phaseQuarantined { // nobody has written it
			return record.WordNew
		}
	case record.MarkerUnreadable, record.MarkerLater:
	}
	return ""
}

// roughly rounds a time as people tell it.
func roughly(d time.Duration) time.Duration {
	switch {
	case d < 0:
		return 0
	case d < time.Second:
		return d.Round(time.Millisecond)
	case d < 9950*time.Millisecond: // 10s, not 10.0s
		return d.Round(100 * time.Millisecond)
	default:
		return d.Round(time.Second)
	}
}

// Why a node has no vote. Both are errors of package redlock, which programs compare with: so the
// reasons of this file wrap one of them, or one of package pipeline.
var (
	ErrNotMember    = trouble.Mark(trouble.NotMember, errors.New("redlock: not a member of the cluster"))
	ErrOtherCluster = trouble.Mark(trouble.OtherCluster, errors.New("redlock: member of another cluster"))
)

// whyNoMemberLocked returns why a node that remembers has no vote: its marker does not name a
// member of the roster. Without a roster, the reason is of all nodes: what the reconciler noted in
// belief says which one it is. Each text says what an operator can do, if that is known.
func (ms *Membership) whyNoMemberLocked(i int) error {
	k, n := &ms.belief, &ms.members[i]
	switch p := n.place; {
	case k.Conflict != nil:
		return trouble.Mark(trouble.Conflict, fmt.Errorf("%w: %w", ErrOtherCluster, k.Conflict))
	case k.Roster == nil && ms.cluster != "" && p.Version != (record.Version{}) && p.Cluster != ms.cluster:
		return fmt.Errorf("%w: %s, not %s", ErrOtherCluster, p.Cluster, ms.cluster)
	case k.Roster == nil && ms.cluster != "" && p.Version == (record.Version{}):
		return fmt.Errorf("%w: no master of cluster %s remembers it (`redlock init --force` makes a new one)", ErrNotMember, ms.cluster)
	case n.torn && ms.looks:
		longest := ms.longestLocked()
		return fmt.Errorf("%w; the next client that takes a lock lets it wait and come back: `redlock run --name doctor --ttl %v --max-ttl %v --wait %v -- true`",
			pipeline.ErrTorn, longest, longest, 3*ms.quarantineLocked())
	case k.Roster == nil && n.unread != nil:
		return fmt.Errorf("%w: it was asked for the list of members, for %v: %w", pipeline.ErrQuarantined, askTimeout, n.unread)
	case k.Roster == nil && k.Rival != "":
		return trouble.Mark(trouble.Conflict, fmt.Errorf("%w: the list has masters of two clusters, also of %s, and others that do not answer: leave out those of one", ErrOtherCluster, k.Rival))
	case k.Roster == nil && p.Version != (record.Version{}) && p.Cluster == k.Few:
		return trouble.Mark(trouble.NoMajority, fmt.Errorf("%w: no more masters of this list are of cluster %s than do not answer: start those, or leave out the ones that are gone", pipeline.ErrQuarantined, p.Cluster))
	case k.Roster == nil && p.Version != (record.Version{}):
		return trouble.Mark(trouble.NoMajority, fmt.Errorf("%w: no majority of cluster %s is in this list and can be reached%s", pipeline.ErrQuarantined, p.Cluster, ms.unlistedLocked(p.Cluster)))
	case k.Roster == nil && n.forbids:
		return fmt.Errorf("%w: the user may not read or write %s there, without which it becomes no member of a new cluster", pipeline.ErrQuarantined, pipeline.RegisterKey)
	case k.Roster == nil && k.unproven != nil && p.Cluster == "" && n.nonMember == n.text:
		return fmt.Errorf("%w: it is new, and the list also has a master of cluster %s: leave out those of one", pipeline.ErrQuarantined, k.unproven.Cluster)
	case k.Roster == nil && len(ms.awayLocked()) > 0:
		return fmt.Errorf("%w: a new cluster begins when all of its masters are there, also %s", pipeline.ErrQuarantined, strings.Join(ms.awayLocked(), " and "))
	case k.Roster == nil && ms.looks:
		return fmt.Errorf("%w: it belongs to no cluster; the first client that takes a lock forms one", pipeline.ErrQuarantined)
	case k.Roster == nil:
		return fmt.Errorf("%w: a new cluster is being formed", pipeline.ErrQuarantined)
	case p.Cluster != "" && p.Cluster != k.Roster.Cluster:
		return fmt.Errorf("%w: %s, not %s", ErrOtherCluster, p.Cluster, k.Roster.Cluster)
	case k.Roster.Index(p.Member) < 0:
		return fmt.Errorf("%w: `redlock members add` adds it", ErrNotMember)
	case ms.lives.Over(n.marker, p):
		return fmt.Errorf("%w: it forgot, and its memory marker from before that was brought back", pipeline.ErrQuarantined)
	case p.Version == (record.Version{}):
		return fmt.Errorf("%w: it forgot, and rejoins when another member that remembers answers", pipeline.ErrQuarantined)
	default:
		return fmt.Errorf("%w: it was told another version of the cluster's list", pipeline.ErrQuarantined)
	}
}

// awayLocked returns the masters of the list without which no cluster can be formed: as the
// reconciler found it, or if it has not yet, those that are not there. What a pass found stays
// until the next one.
func (st *state) awayLocked() (missing []string) {
	if len(st.belief.missing) > 0 {
		return st.belief.missing
	}
	for _, node := range st.Nodes()[:st.listed] {
		if node.State() != pipeline.Up {
			missing = append(missing, node.Endpoint())
		}
	}
	return missing
}

// unlistedLocked names the members that are not in the list, as far as one of them tells.
func (ms *Membership) unlistedLocked(cluster string) string {
	told := ms.belief.unproven
	if told == nil || told.Cluster != cluster {
		return ""
	}
	var missing []string
	for _, p := range told.Members {
		listed := slices.ContainsFunc(ms.members, func(n member) bool { return n.place.Cluster == cluster && n.place.Member == p.ID }) ||
			slices.ContainsFunc(ms.Nodes(), func(n *pipeline.Node) bool { return n.Endpoint() == p.Endpoint })
		if !listed {
			missing = append(missing, p.Endpoint)
		}
	}
	if len(missing) == 0 {
		return ""
	}
	return fmt.Sprintf("; it takes %[2]d of its %[1]d members: also list %[3]s", len(told.Members), told.Need(), strings.Join(missing, ", "))
}
