// Package core decides what a client makes of what masters told it. Values go in and values come
// out: nothing here asks a master, waits, reads a clock, starts a goroutine or locks a mutex, so a
// scene can be written as text (testdata). Only names are random: of new memories, and of ballots.
package core

import (
	"slices"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/redlock/internal/members/record"
)

// Report is what a master says of its cluster. It is a value that nobody changes: what it points
// to is shared with every copy. Text and Held are what the master said, and what it must still say
// when it makes a change; the rest is what they mean.
type Report struct {
	Node     int           // its index among the nodes of the client
	Asked    clock.Instant // before the first byte of the request was sent; all else is no older
	Text     string        // the marker
	Marker   record.Marker
	Place    record.Place // what the marker says of the cluster
	Held     string       // the register
	Register record.Register
	Now      int64 // the master's time: milliseconds since 1970
}

// ReadReport reads what a master said: the texts of its marker and its register, and its time.
func ReadReport(node int, text, held string, now int64) Report {
	m := record.ParseMarker(text)
	return Report{Node: node, Text: text, Marker: m, Place: m.Place(), Held: held, Register: record.ParseRegister(held), Now: now}
}

// Told returns the version that the master was told, if it remembers and its register has it;
// otherwise nil.
func (r *Report) Told() *record.Roster {
	t := r.Register.Told
	if r.Marker.State != record.MarkerActive || r.Place.Joined != 0 || t == nil || t.Cluster != r.Place.Cluster || t.Version != r.Place.Version {
		return nil
	}
	return t
}

// isAlone reports whether the master is all of its cluster, whether it has been told so or has only
// joined that: whoever used it alone may have ended in between.
func (r *Report) isAlone() bool {
	t := r.Register.Told
	return t != nil && t.Cluster == r.Place.Cluster && t.Version == r.Place.Version && len(t.Members) == 1
}

// IsTorn reports whether the master has lost a part of its keys: its marker names a version that
// it was told, and the register does not have it. One script writes both, and they are read by
// one. So the marker, which is still there, vouches for nothing.
func (r *Report) IsTorn() bool {
	return r.Marker.State == record.MarkerActive && r.Place.IsTold() && r.Place.Joined == 0 && r.Told() == nil
}

// ToldNext returns the version after a roster that some of its members were told, and how many;
// nil if none was, or they were told different ones. One of those was forgotten by its majority
// then, and which one cannot be told from here. A member counts once, however many masters say
// that they are it: one of them is a copy.
func ToldNext(roster *record.Roster, reports []Report) (next *record.Roster, by int) {
	var ids []string
	for i := range reports {
		r := &reports[i]
		t := r.Told()
		if t == nil || t.Cluster != roster.Cluster || t.Before != roster.Version || roster.Index(r.Place.Member) < 0 {
			continue
		}
		if next != nil && next.Version != t.Version {
			return nil, 0
		}
		if next = t; !slices.Contains(ids, r.Place.Member) {
			ids = append(ids, r.Place.Member)
		}
	}
	return next, len(ids)
}

// isOf reports whether the master is one of a cluster, or was before it forgot: while it waits,
// when it has waited and nobody let it rejoin yet, and when it lost a part of its keys. One that
// only may become a member is none.
func (r *Report) isOf(cluster string) bool {
	return cluster != "" && r.Place.Cluster == cluster && r.Place.Member != "" && (r.Place.Joined == 0 || r.Marker.State == record.MarkerLost)
}

// masters counts those that are of a cluster, whatever version they were told.
func masters(reports []Report, cluster string) (n int) {
	var ids []string
	for i := range reports {
		if r := &reports[i]; r.isOf(cluster) && !slices.Contains(ids, r.Place.Member) {
			ids = append(ids, r.Place.Member)
		}
	}
	return len(ids)
}

// NamedIn counts the members that name a version: with a majority of them, it counts. Lives that
// are over are not looked at: what such a marker names was chosen all the same, and whether its
// vote counts is decided for each vote.
func NamedIn(reports []Report, t *record.Roster) (n int) {
	var ids []string
	for i := range reports {
		r := &reports[i]
		if told := r.Told(); told != nil && told.Cluster == t.Cluster && told.Version == t.Version && t.Index(r.Place.Member) >= 0 && !slices.Contains(ids, r.Place.Member) {
			ids = append(ids, r.Place.Member)
		}
	}
	return len(ids)
}

// countedIn returns the newest version of each cluster that counts. Of one number, only one can: a
// version is told once a majority holds to it, and two majorities share a member.
func countedIn(reports []Report) (counted []*record.Roster) {
	for i := range reports {
		t := reports[i].Told()
		if t == nil || NamedIn(reports, t) < t.Need() {
			continue
		}
		at := slices.IndexFunc(counted, func(r *record.Roster) bool { return r.Cluster == t.Cluster })
		switch {
		case at < 0:
			counted = append(counted, t)
		case t.Version.Number > counted[at].Version.Number:
			counted[at] = t
		}
	}
	return counted
}
