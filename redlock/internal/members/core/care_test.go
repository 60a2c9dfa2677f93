package core

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/redlock/internal/members/record"
)

// cares are the sentences of testdata/needs.txt and testdata/form.txt.
var cares = []sentence{
	{regexp.MustCompile(`^for (\w+): (.*)$`), (*scene).needs},
	{regexp.MustCompile(`^([\w ]+): has waited (\d+) s for (\w)(, as nobody knew)?$`), (*scene).hasWaited},
	{regexp.MustCompile(`^(\w) of (\w+) begins life (\d)$`), (*scene).begins},
	{regexp.MustCompile(`^(\w) is down$`), func(s *scene, w []string) { s.node(w[1]).Up = false }},
	{regexp.MustCompile(`^a new cluster(?: of (\w+))?: (.*)$`), (*scene).form},
	{regexp.MustCompile(`^(\w) looks$`), (*scene).look},
	{regexp.MustCompile(`^(\w) has ([\w ]+) join: (.*)$`), (*scene).join},
	{regexp.MustCompile(`^(\w) tells ([\w ]+): (.*)$`), (*scene).tellFirst},
	{regexp.MustCompile(`^(\w) gives up$`), (*scene).giveUp},
	{regexp.MustCompile(`^set back: (.*)$`), (*scene).setBack},
	{regexp.MustCompile(`^(\w) rejoins (\w+), by ([\w ]+): (.*)$`), (*scene).rejoin},
}

// needs compares what each master needs of a client that looks after a version.
func (s *scene) needs(words []string) {
	s.checked = true
	r := s.named(words[1])
	care := CareFor(r, s.belief.Roster == r, s.reports)
	var got []string
	for i := range s.reports {
		need, id := s.client.NeedOf(&s.reports[i], care)
		got = append(got, s.name(s.reports[i].Node)+" "+map[Need]string{
			Nothing: "waits", Wait: "waits anew as " + id, Rejoin: "rejoins as " + id, Show: "is shown lives", Tell: "is told",
			Ahead: "is ahead", Finish: "is asked what was accepted", Leave: "is left alone",
		}[need])
	}
	assert.Equal(s.t, words[2], strings.Join(got, ", "))
}

// hasWaited has masters say that they have waited, as the member that somebody knew, or not.
func (s *scene) hasWaited(words []string) {
	p := record.Place{Cluster: words[3], Life: 1}
	if words[4] != "" {
		p.Life = 0
	}
	s.say(words[1], record.MarkerActive, p, nil)
	for name := range strings.FieldsSeq(words[1]) {
		r := s.report(name)
		m := r.Marker
		m.MaxTTL = s.number(words[2]) * 1000
		*r = ReadReport(r.Node, m.Text(), r.Held, r.Now)
	}
}

// begins compares the life that a master begins which waits anew.
func (s *scene) begins(words []string) {
	s.checked = true
	swap := s.client.LetWait(s.report(words[1]), s.named(words[2]), words[1])
	m := record.ParseMarker(swap.Begin + " until 1 " + swap.Rest)
	assert.Equal(s.t, words[3], strconv.FormatInt(m.Place().Life, 10))
	assert.Equal(s.t, time.Minute.Milliseconds(), swap.Wait)
	assert.NotEqual(s.t, s.report(words[1]).Marker.Incarnation, m.Incarnation)
}

// form compares what would become a new cluster, of the list or of the members of a version.
func (s *scene) form(words []string) {
	s.checked = true
	var r *record.Roster
	if words[1] != "" {
		r = s.named(words[1])
	}
	f := s.client.Formable(s.reports, r)
	got := "may not be"
	switch {
	case f.May:
		got = "of " + s.names(f.Of)
	case len(f.Missing) > 0:
		got = "not without " + strings.ReplaceAll(strings.ReplaceAll(strings.Join(f.Missing, " "), "redis://", ""), ":6379", "")
	}
	assert.Equal(s.t, words[2], got)
}

// look has a client see the masters of its list, and draw a cluster, which has its name.
func (s *scene) look(words []string) {
	f := s.client.Formable(s.reports, nil)
	require.True(s.t, f.May)
	name := strings.ToUpper(words[1])
	r := &record.Roster{Cluster: name, Version: record.Version{Number: 1, Name: "v"}, MaxTTL: time.Minute, Earlier: time.Minute}
	for _, one := range f.Of {
		id := s.name(one.Node)
		r.Members = append(r.Members, record.Peer{ID: id, Endpoint: endpoint(id)})
	}
	s.versions[name+"1"] = r
	s.operators[words[1]] = &operator{after: r, seen: f.Of}
}

// join compares which of the masters that are asked join.
func (s *scene) join(words []string) {
	s.checked = true
	o := s.operators[words[1]]
	joined := Joined(s.apply(s.client.AskToJoin(o.seen, o.after), words[2]), o.after)
	o.given = append(o.given, joined...)
	got := "nobody"
	if len(joined) > 0 {
		got = s.names(joined)
	}
	assert.Equal(s.t, words[3], got)
}

// tellFirst compares which masters become members that are told that all have joined.
func (s *scene) tellFirst(words []string) {
	s.checked = true
	o := s.operators[words[1]]
	asks, all := TellFirst(o.given, true, o.after)
	require.True(s.t, all, "not all have joined")
	told := slices.DeleteFunc(s.apply(asks, words[2]), func(r Report) bool { return r.Told() == nil })
	got := "nobody"
	if len(told) > 0 {
		got = s.names(told)
	}
	assert.Equal(s.t, words[3], got)
}

func (s *scene) giveUp(words []string) {
	o := s.operators[words[1]]
	asks, _ := TellFirst(o.given, false, o.after)
	s.apply(asks, "a b c d e")
}

// setBack compares what becomes of masters that were left behind in a new cluster.
func (s *scene) setBack(words []string) {
	s.checked = true
	var got []string
	for _, r := range s.apply(s.client.SetBack(s.reports), "a b c d e") {
		is := " is new"
		if r.Told() != nil {
			is = " is told"
		}
		got = append(got, s.name(r.Node)+is)
	}
	if got == nil {
		got = []string{"nobody"}
	}
	assert.Equal(s.t, words[1], strings.Join(got, ", "))
}

// rejoin compares what a master says that was let rejoin after the others were asked.
func (s *scene) rejoin(words []string) {
	s.checked = true
	roster := s.named(words[2])
	s.run(Rejoining{s.report(words[1]), words[1], roster, slices.Clone(s.reports)}.task, words[1]+" "+words[3])
	got := "no"
	if r := s.report(words[1]); r.Told() != nil {
		got = map[bool]string{false: "it votes", true: "it votes, unlearned"}[r.Register.Unlearned]
		if r.Register.Accepted != nil {
			got += ", and has accepted " + s.versionName(r.Register.Accepted)
		}
		assert.True(s.t, roster.Counts(r.Place))
	}
	assert.Equal(s.t, words[4], got)
}
