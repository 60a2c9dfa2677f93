package search

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redquorum/redquorum/redlock/internal/members/core"
	"github.com/redquorum/redquorum/redlock/internal/members/record"
)

// A state has small numbers; package core has markers and registers. This file leads from one to
// the other. What is decided in between, core decides: the model has no rule of its own for it.
//
// Time is what is still under way (doc.go). So a master reports a time that is just enough for a
// wait that is over, and a millisecond too early for one that is not.
const (
	cluster = "C"
	maxTTL  = time.Minute
	now     = int64(1_000_000_000)
	letters = "abcde"
)

func letter(i int) string { return letters[i : i+1] }

func endpoint(i int) string { return "redis://" + letter(i) + ":6379" }

// names of sets are names of versions: two proposals of the same members are one.
func (s set) letters() string {
	var text strings.Builder
	for i := range masters {
		if s.has(i) {
			text.WriteString(letter(i))
		}
	}
	return text.String()
}

func setOf(text string) (s set) {
	for _, r := range text {
		s = s.with(strings.IndexRune(letters, r))
	}
	return s
}

func versionOf(number int, members set) record.Version {
	if number == 0 {
		return record.Version{}
	}
	return record.Version{Number: int64(number), Name: members.letters()}
}

// roster returns what a text stands for: always the same one, because core compares some of them by
// their address.
func (x *explorer) roster(t text) *record.Roster {
	if t == 0 {
		return nil
	}
	r := x.rosters[t]
	if r == nil {
		r = &record.Roster{
			Cluster: cluster, MaxTTL: maxTTL, Earlier: maxTTL,
			Version: versionOf(t.number(), t.members()), Before: versionOf(t.number()-1, t.before()),
		}
		for i := range masters {
			if t.members().has(i) {
				r.Members = append(r.Members, record.Peer{ID: letter(i), Endpoint: endpoint(i)})
			}
		}
		x.rosters[t] = r
	}
	return r
}

func textOfRoster(r *record.Roster) text {
	if r == nil {
		return 0
	}
	var members set
	for _, p := range r.Members {
		members |= setOf(p.ID)
	}
	return textOf(int(r.Version.Number), setOf(r.Before.Name), members)
}

// client returns what a client knows that has heard of some lives.
func (x *explorer) client(known lives) *core.Client {
	if c := x.clients[known]; c != nil {
		return c
	}
	c := &core.Client{Lives: record.Lives{}}
	for i := range masters {
		c.Nodes = append(c.Nodes, core.Node{Listed: true, Met: true, Up: true, Of: letter(i), ID: letter(i), Endpoints: []string{endpoint(i)}})
		if life := known.of(i); life > 0 {
			c.Lives[record.MemberID{Cluster: cluster, Member: letter(i)}] = record.Version{Number: int64(life), Name: memory}
		}
	}
	x.clients[known] = c
	return c
}

// memory begins every incarnation: a life is a number here.
const memory = "memory"

func incarnation(i int, life uint8) string { return memory + letter(i) + strconv.Itoa(int(life)) }

// notesText is what a marker says of the lives of others.
func (l lives) notesText(except int) string {
	known, all := record.Lives{}, &record.Roster{Cluster: cluster}
	for i := range masters {
		all.Members = append(all.Members, record.Peer{ID: letter(i)})
		if life := l.of(i); life > 0 {
			known[record.MemberID{Cluster: cluster, Member: letter(i)}] = record.Version{Number: int64(life), Name: memory}
		}
	}
	return known.Of(all, letter(except))
}

// said is all of a master that its marker and its register show.
type said struct {
	at       int
	state    state
	told     text
	waits    bool
	promised uint8
	ballot   uint8
	accepted text
	id       int
	life     uint8
	notes    lives
}

// report returns what a master says.
func (x *explorer) report(m *master, i int) *core.Report {
	key := said{i, m.state, m.told, m.wait != 0, m.promised, m.ballot, m.accepted, m.id(i), m.life, m.notes}
	if r := x.reports[key]; r != nil {
		return r
	}
	marker := record.Marker{
		State: record.MarkerActive, Incarnation: incarnation(i, m.life), RunID: letter(i), ReplID: letter(i),
		MaxTTL: core.Quarantine(maxTTL).Milliseconds(),
	}
	place, held := record.Place{Cluster: cluster, Member: letter(m.id(i)), Life: int64(m.life)}, ""
	switch m.state {
	case stranger:
		if place = (record.Place{}); x.Adds.has(i) {
			place = record.Place{Cluster: cluster, Member: letter(i), Joined: 1}
		}
	case lost:
		place.Life = max(1, place.Life) // where lives are not counted, nobody knows of another one
		if m.wait != 0 {
			marker.State, marker.Until = record.MarkerLost, now+1
		}
	case active:
		place.Version, place.Lives = versionOf(m.told.number(), m.told.members()), m.notes.notesText(m.id(i))
		register := record.Register{Told: x.roster(m.told), Unlearned: m.promised == unlearned}
		if !register.Unlearned && m.promised != 0 {
			register.Promised, register.Until = ballotOf(m.promised), now
		}
		if m.accepted != 0 {
			register.Ballot, register.Accepted = ballotOf(m.ballot), x.roster(m.accepted)
		}
		since := now - register.Told.Wait()
		if m.wait != 0 {
			since++
		}
		held = strconv.FormatInt(since, 10) + "\n" + register.Rest()
	}
	r := core.ReadReport(i, marker.At(place).Text(), held, now)
	x.reports[key] = &r
	return &r
}

func ballotOf(number uint8) record.Version {
	return record.Version{Number: int64(number), Name: "ballot"}
}

// all returns what all masters say.
func (x *explorer) all(w *world) (reports []core.Report) {
	for i := range w.masters {
		reports = append(reports, *x.report(&w.masters[i], i))
	}
	return reports
}

// make makes a change of a master, as members.lua does at one that says what the change is of, and
// reports whether it was time for that.
func (x *explorer) make(w *world, change *core.Change) bool {
	e := change.Entry()
	if now < e.Due || e.Latest != 0 && now > e.Latest {
		return false
	}
	i := change.Of.Node
	m, since := &w.masters[i], cmp.Or(e.Since, strconv.FormatInt(now, 10))
	held := change.Of.Held
	if e.Register != "" {
		held = since + "\n" + e.Register
		if e.Since == "" { // what is under way now is waited for
			m.wait = w.alive()
		}
	}
	x.write(m, i, core.ReadReport(i, e.Marker, held, now))
	return true
}

// write takes what a master says now. Its key, and who is waited for, are not in that.
func (x *explorer) write(m *master, i int, r core.Report) {
	p, of := r.Place, r.Register
	if t := r.Told(); t == nil {
		panic(fmt.Sprintf("a change leaves a master with the marker %q and the register %q", r.Text, r.Held))
	}
	*m = master{state: active, told: textOfRoster(of.Told), wait: m.wait, key: m.key, before: m.before}
	if id := strings.Index(letters, p.Member); id != i {
		m.as = uint8(id) + 1
	}
	if m.promised = uint8(of.Promised.Number); of.Unlearned {
		m.promised = unlearned
	}
	if of.Accepted != nil {
		m.ballot, m.accepted = uint8(of.Ballot.Number), textOfRoster(of.Accepted)
	}
	if x.Revivals > 0 {
		m.life = uint8(p.Life)
		read := record.Lives{}
		read.Meet(r.Marker, p)
		for other := range masters {
			if life := read[record.MemberID{Cluster: cluster, Member: letter(other)}]; other != m.id(i) {
				m.notes = m.notes.with(other, uint8(life.Number))
			}
		}
	}
}
