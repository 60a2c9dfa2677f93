package members

import (
	"slices"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/redlock/internal/members/core"
	"github.com/redquorum/redquorum/redlock/internal/members/record"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
)

// Each node has a position: its index, by which rounds and locks know it. The positions of the
// list come first, then those of members that it lacks; there are never fewer.
//
//	taken ──its master was removed──▶ free ──a member has no node──▶ taken
//
// A master that was removed is told, as any other that names an older version, as soon as it can
// be reached. Its position becomes free when it was told, but not before LongestTTL has passed
// since we learned of the removal: every attempt that asked it as a member is over then, and
// whatever we left there has expired. The connection ends, and nothing more comes of it, before
// another node takes the position. So it is with a master that an operator tried to add in vain.
//
// The mutex of the Membership guards it, as all that is known of a node. The nodes themselves are
// asked for their state and their endpoint only, which they tell anybody.
type position struct {
	of       string         // the member that its master was last; empty if it never was one
	kept     int            // operators who are about to add its master
	left     bool           // the last of them gave it up
	ends     clock.Instant  // when it may become free; never while its master is a member, or never was one and may be
	told     bool           // that it was removed, before the position became free
	since    record.Version // the version under which it became free; zero while it is taken
	reusable clock.Instant  // when another master may take it; never while the connection is ending
}

// free reports whether the connection to a node was ended, because its master was removed, or not
// added.
func (n *member) free() bool { return n.position.since != (record.Version{}) }

// taken returns the nodes whose positions are taken: all that are asked anything.
func (t table) taken() (nodes quorum.NodeSet) {
	for i := range t {
		if !t[i].free() {
			nodes.Add(i)
		}
	}
	return nodes
}

// removedLocked reports whether a node's master was a member and is none any more, and notes when
// its position may become free. It is called with each View, and notes the same however often:
// ends is set once, and unset only if the master becomes a member again, or may be one of a version
// that is not found to count yet, or an operator is about to add it. Of the list, only nodes that
// the Locker owns may be closed.
func (st *state) removedLocked(i int, c *core.Client) bool {
	n, roster := &st.members[i], st.belief.Roster
	at := c.IndexOf(i, roster)
	switch p := n.place; {
	case at >= 0:
		n.position.of, n.position.left = roster.Members[at].ID, false
	case p.Cluster == roster.Cluster && p.Joined != 0: // somebody is about to add it
		n.position.of = ""
	case p.Cluster == roster.Cluster && p.Version != (record.Version{}):
		n.position.of = p.Member
	}
	if n.position.of == "" || roster.Index(n.position.of) >= 0 {
		switch {
		case !n.position.left:
			n.position.ends = never
		case n.position.ends == never && n.position.kept == 0: // an operator has left it
			n.position.ends = st.clock.Now().Add(roster.Longest())
		}
		return false
	}
	switch unproven := st.belief.unproven; {
	case unproven != nil && unproven.Index(n.position.of) >= 0:
		n.position.ends = never
	case n.position.ends == never && n.position.kept == 0 && (st.owns || i >= st.listed):
		n.position.ends = st.clock.Now().Add(roster.Longest())
	}
	return true
}

// endingLocked returns the nodes whose positions become free now: it is time, and their master
// was told, or never was a member.
func (st *state) endingLocked() (nodes quorum.NodeSet) {
	now, roster := st.clock.Now(), st.belief.Roster
	for i := range st.members {
		n := &st.members[i]
		if n.position.ends > now || n.position.kept > 0 { // also without a roster
			continue
		}
		behind := n.place.Cluster == roster.Cluster && n.place.Version != (record.Version{}) && n.place.Version != roster.Version
		if n.duplicate >= 0 || n.position.left || (n.seen || n.position.told) && !behind { // the first node of a server is told for all
			nodes.Add(i)
		}
	}
	return nodes
}

// freePositions ends the connections to masters that were removed, or not added. Only the
// reconciler calls it, at the end of a pass: so its own requests to these nodes, whose answers it
// awaits, are over.
//
// Closing waits for the node's goroutines, which may wait for mu. So the positions are free, and
// are asked no more, before the nodes are closed; and none can be taken again until that is done.
func (rc *Reconciler) freePositions() {
	rc.ms.mu.Lock()
	ending := rc.ms.endingLocked()
	for i := range ending.Nodes() {
		of := rc.ms.members[i].position.of
		rc.ms.members[i] = newMember()
		rc.ms.members[i].position = position{of: of, told: true, ends: never, since: rc.ms.belief.Roster.Version, reusable: never}
	}
	if !ending.Empty() {
		rc.ms.secondRead = nil // its answer is not awaited
	}
	rc.ms.endLocked(false) // they are asked no more
	for i := range ending.Nodes() {
		_ = rc.ms.Nodes()[i].Close() //nolint:errcheck // always nil
		rc.ms.mu.Lock()
		rc.ms.members[i].position.reusable = rc.ms.clock.Now().Add(rc.ms.longestLocked())
		rc.ms.mu.Unlock()
	}
}

// missingLocked returns the members of a roster that have no node, and the free positions that may
// be theirs.
// As long as a node of the list has not said who it is, none is missing: two nodes of one master
// would cost a connection, and no vote, but one of them would stay for good. Without discovery,
// that may be any of the list, by another name; but none is tried twice for one version.
func (st *state) missingLocked(roster *record.Roster) (peers []record.Peer, free []int) {
	nodes := st.Nodes()
	if roster == nil {
		return nil, nil
	}
	for i, node := range nodes[:st.listed] {
		if n := &st.members[i]; !n.seen && !n.free() && node.State() == pipeline.Connecting {
			return nil, nil // it may be one of them under another name
		}
	}
	// An endpoint that cannot be dialed counts as the member's node, and so does a node at it that
	// has not said who it is.
	for _, p := range roster.Members {
		has := slices.Contains(st.undialable, p.Endpoint)
		for i, node := range nodes {
			n := &st.members[i]
			is := (n.id == p.ID || n.position.of == p.ID && n.place.MayBeOf(roster)) && !st.isElsewhereLocked(i)
			has = has || !n.free() && (is || node.Endpoint() == p.Endpoint || node.Server() == p.Server())
		}
		if !has {
			peers = append(peers, p)
		}
	}
	for i, node := range nodes {
		s := &st.members[i].position
		its := i < st.listed && st.dial == nil || slices.ContainsFunc(peers, func(p record.Peer) bool { return node.Server() == p.Server() })
		if len(peers) > 0 && s.since != (record.Version{}) && s.since != roster.Version && s.reusable != never && its {
			free = append(free, i)
		}
	}
	return peers, free
}

// dialMissing connects to the members that have no node, and to those of a version that may count
// instead of ours: these are no members as long as it was not found to, so no round asks them. Only
// the reconciler calls it, so what is missing is not dialed twice, although mu is free between the
// look and the new node.
func (rc *Reconciler) dialMissing() {
	rc.ms.mu.Lock()
	ours, unproven := rc.ms.belief.Roster, rc.ms.belief.unproven
	rc.ms.mu.Unlock()
	if rc.dialMembers(ours, false); ours != nil {
		rc.dialMembers(unproven, true)
	}
}

// dialMembers connects to the members of a roster that have no node: at the endpoints of free
// positions that may be theirs, otherwise at those by which they were added. Whoever named these,
// our credentials go where the rules for members allow it (pipeline.NewMember). A master that turns
// out to be no member, and was never reached, need not be told that (told).
func (rc *Reconciler) dialMembers(roster *record.Roster, told bool) {
	rc.ms.mu.Lock()
	peers, free := rc.ms.missingLocked(roster)
	rc.ms.mu.Unlock()
	for _, i := range free {
		rc.ms.addNode(rc.ms.Nodes()[i].Again(), position{})
	}
	if len(free) > 0 || rc.ms.dial == nil {
		return // the others are dialed when it is known which members these are
	}
	for _, p := range peers {
		node, err := rc.ms.dial(p.Listed())
		if err == nil && rc.ms.addNode(node, position{of: p.ID, told: told}) >= 0 {
			continue
		}
		rc.ms.mu.Lock()
		rc.ms.undialable = append(rc.ms.undialable, p.Endpoint)
		rc.ms.mu.Unlock()
	}
}

// NodeAt returns the index of the node at an endpoint that the caller has named, and adds it if
// there is none; -1 if the Membership was stopped, or has too many nodes. It stays until
// [Membership.Leave].
func (ms *Membership) NodeAt(node *pipeline.Node) int {
	ms.mu.Lock()
	for i, other := range ms.Nodes() {
		if n := &ms.members[i]; other.Endpoint() == node.Endpoint() && !n.free() {
			n.position.kept++
			n.position.left = false
			ms.mu.Unlock()
			other.Trust(node)
			_ = node.Close() //nolint:errcheck // always nil
			return i
		}
	}
	ms.mu.Unlock()
	return ms.addNode(node, position{kept: 1})
}

// Leave says that an operator is done with a node, once for each NodeAt. If its master has become
// no member, its position becomes free like that of one that was removed: until then, rounds may
// have asked it.
func (ms *Membership) Leave(i int) {
	ms.mu.Lock()
	p := &ms.members[i].position
	p.kept--
	if p.kept == 0 && p.of == "" && i >= ms.listed {
		p.left = true // removedLocked says until when, once there is a roster
	}
	ms.endLocked(false)
}

// addNode adds a node with what is known of its position, and returns its index; -1 if the
// Membership was stopped, or has too many nodes. Then the node is closed.
//
// The slice of nodes is a new one each time: rounds read the old one without mu. Nothing of the
// master before is left in a position that is taken again, but which member it was, if it is the
// same master. The node is watched only when mu is free, and has no vote before it is.
func (ms *Membership) addNode(node *pipeline.Node, s position) int {
	ms.mu.Lock()
	i := ms.positionForLocked(node)
	if ms.stopped || i == quorum.MaxNodes {
		ms.mu.Unlock()
		_ = node.Close() //nolint:errcheck // always nil
		return -1
	}
	nodes := slices.Clone(ms.Nodes())
	if i == len(nodes) {
		nodes, ms.members = append(nodes, node), append(ms.members, newMember())
	}
	if before := ms.members[i].position; s == (position{}) { // it is the same master
		s.of, s.told = before.of, before.told
	}
	s.ends, s.reusable = never, never
	nodes[i], ms.members[i] = node, newMember()
	ms.members[i].position = s
	ms.nodes.Store(&nodes)
	ms.setTimerLocked(ms.decideLocked())
	ms.mu.Unlock()
	ms.watch(i)
	return i
}

// positionForLocked returns the position for a node: a free one that was its own, another one
// behind the list, or a new one. In another master's position, no vote of that one may count as if
// it were of this one: the last round that asked it, for a release, is over LongestTTL after its
// connection ended.
func (st *state) positionForLocked(node *pipeline.Node) int {
	for i, other := range st.Nodes() {
		s := &st.members[i].position
		own := s.reusable != never && other.Endpoint() == node.Endpoint()
		if s.since != (record.Version{}) && (own || i >= st.listed && s.reusable <= st.clock.Now()) {
			return i
		}
	}
	return len(st.members)
}
