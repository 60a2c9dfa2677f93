package core

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/redlock/internal/members/record"
)

// operator is whoever goes through a choice in a scene.
type operator struct {
	after  *record.Roster
	ballot Ballot
	seen   []Report // what masters said when it began
	given  []Report // the promises
}

// choices are the sentences of testdata/choice.txt.
var choices = []sentence{
	{regexp.MustCompile(`^after (\d+) s$`), (*scene).pass},
	{regexp.MustCompile(`^the clock of (\w) is set back$`), func(s *scene, w []string) { s.report(w[1]).Now = 1 }},
	{regexp.MustCompile(`^(\w) begins after (\w+)$`), (*scene).begin},
	{regexp.MustCompile(`^(\w) is promised by ([\w ]+)$`), (*scene).promise},
	{regexp.MustCompile(`^(\w) teaches ([\w ]+)$`), (*scene).teach},
	{regexp.MustCompile(`^(\w) proposes (\w+) to ([\w ]+): (.*)$`), (*scene).propose},
	{regexp.MustCompile(`^(\w) finishes (\w+), with ([\w ]+): (.*)$`), (*scene).finish},
	{regexp.MustCompile(`^(\w) changes (\w+) to (\w+), with ([\w ]+): (.*)$`), (*scene).change},
	{regexp.MustCompile(`^answers take (\d+) s$`), func(s *scene, w []string) { s.late = time.Duration(s.number(w[1])) * time.Second }},
	{regexp.MustCompile(`^(\w+) is told to: (.*)$`), (*scene).tellAll},
}

func (s *scene) pass(words []string) {
	for i := range s.reports {
		s.reports[i].Now += s.number(words[1]) * 1000
	}
}

// report returns what a master says now, which is all that there is of it.
func (s *scene) report(master string) *Report {
	at := slices.IndexFunc(s.reports, func(r Report) bool { return r.Node == s.at[master] })
	require.GreaterOrEqual(s.t, at, 0, "%s says nothing", master)
	return &s.reports[at]
}

// apply makes the changes that reach a master, as members.lua does, and returns what these masters
// say then.
func (s *scene) apply(asks []Change, masters string) (answers []Report) {
	for _, c := range asks {
		r := &s.reports[slices.IndexFunc(s.reports, func(r Report) bool { return r.Node == c.Of.Node })]
		if !slices.Contains(strings.Fields(masters), s.name(c.Of.Node)) {
			continue
		}
		e := c.Entry()
		if r.Text == c.Of.Text && r.Held == c.Of.Held && r.Now >= e.Due && (e.Latest == 0 || r.Now <= e.Latest) {
			held := r.Held
			if e.Register != "" {
				since := e.Since
				if since == "" {
					since = strconv.FormatInt(r.Now, 10)
				}
				held = since + "\n" + e.Register
			}
			*r = ReadReport(r.Node, e.Marker, held, r.Now)
		}
		answers = append(answers, *r)
	}
	return answers
}

func (s *scene) name(node int) string {
	for name, at := range s.at {
		if at == node {
			return name
		}
	}
	return "nobody"
}

// versionName returns how a scene calls a version.
func (s *scene) versionName(r *record.Roster) string {
	return r.Cluster + strconv.FormatInt(r.Version.Number, 10) + strings.TrimPrefix(r.Version.Name, "v")
}

// run carries a task out until a version is chosen. All are heard, and these are asked for changes.
func (s *scene) run(task Task, masters string) (chosen *record.Roster) {
	var answers []Report
	var now clock.Instant
	for task != nil && chosen == nil {
		step := task(s.client, now, answers)
		now = now.Add(s.late)
		if answers = s.apply(step.Asks, masters); step.Look {
			answers = slices.Clone(s.reports)
		}
		chosen, task = step.Chosen, step.Then
	}
	return chosen
}

func (s *scene) begin(words []string) {
	o := &operator{after: s.named(words[2]), seen: slices.Clone(s.reports)}
	o.ballot = NewBallot(o.seen, time.Minute, 0)
	s.operators[words[1]] = o
}

func (s *scene) promise(words []string) {
	o := s.operators[words[1]]
	asks := s.client.AskPromises(o.after, o.ballot, o.seen)
	answers := s.apply(asks, words[2])
	o.given = s.client.Promised(o.after, o.ballot, answers)
	for _, r := range answers {
		given := slices.ContainsFunc(o.given, func(g Report) bool { return g.Node == r.Node })
		assert.Equal(s.t, given, r.Register.Promised == o.ballot.Number, "%s is not counted", s.name(r.Node))
	}
}

func (s *scene) teach(words []string) {
	s.checked = true
	o := s.operators[words[1]]
	taught := "nobody"
	if answers := s.apply(s.client.Teach(o.after, o.ballot, o.given, o.seen), "a b c d e"); len(answers) > 0 {
		taught = s.names(answers)
	}
	assert.Equal(s.t, words[2], taught)
}

func (s *scene) names(reports []Report) string {
	var names []string
	for _, r := range reports {
		names = append(names, s.name(r.Node))
	}
	return strings.Join(names, " ")
}

func (s *scene) propose(words []string) {
	s.checked = true
	o := s.operators[words[1]]
	ch := Choice{Of: o.after, Ballot: o.ballot}
	value, asks := ch.Propose(o.given, s.named(words[2]))
	outcome := "too few promised"
	if value != nil {
		outcome = s.versionName(value) + " is chosen"
		if answers := s.apply(asks, words[3]); !s.client.IsChosen(ch, value, answers) {
			outcome = "too few accept " + s.versionName(value)
		}
	}
	assert.Equal(s.t, words[4], outcome)
}

func (s *scene) finish(words []string) {
	s.checked = true
	before := s.named(words[2])
	told, _ := ToldNext(before, s.reports)
	if told == nil {
		assert.Equal(s.t, words[4], "nothing")
		return
	}
	outcome := "too few hold to " + s.versionName(told)
	if s.run(ToFinish(before), words[3]) == told {
		outcome = s.versionName(told) + " is chosen"
	}
	assert.Equal(s.t, words[4], outcome)
}

func (s *scene) change(words []string) {
	s.checked = true
	outcome := "nothing yet"
	if chosen := s.run(ToChoose(s.named(words[2]), s.named(words[3]), slices.Clone(s.reports)), words[4]); chosen != nil {
		outcome = s.versionName(chosen) + " is chosen"
	}
	assert.Equal(s.t, words[5], outcome)
}

func (s *scene) tellAll(words []string) {
	s.checked = true
	assert.Equal(s.t, words[2], s.names(s.apply(TellAll(s.named(words[1]), s.reports), "a b c d e")))
}
