package core

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/redlock/internal/members/record"
)

// The scenes in testdata (S38 to S40) say what masters tell a client, and what it makes of that.
func TestAClientDecidesWhatTheScenesSay(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, block := range strings.Split(strings.TrimSpace(string(text)), "\n\n")[1:] { // the first says how to read them
			title, script, _ := strings.Cut(block, "\n")
			t.Run(strings.TrimPrefix(title, "# "), func(t *testing.T) {
				s := &scene{t: t, versions: map[string]*record.Roster{}, at: map[string]int{}, client: &Client{Lives: record.Lives{}, Longest: time.Minute}, operators: map[string]*operator{}}
				for line := range strings.SplitSeq(script, "\n") {
					s.play(line)
				}
				require.True(t, s.checked, "nothing is expected")
			})
		}
	}
}

// scene is what a block of testdata has said so far.
type scene struct {
	t         *testing.T
	versions  map[string]*record.Roster // by name: C2 is the second one of cluster C
	at        map[string]int            // nodes by the name of their master
	client    *Client
	belief    Belief
	reports   []Report
	operators map[string]*operator
	standing  Standing      // what an operator saw last
	late      time.Duration // of answers, by the clock of whoever asks
	checked   bool
}

// sentence is a form of sentences, and what one of them does.
type sentence struct {
	form *regexp.Regexp
	play func(s *scene, words []string)
}

var sentences = []sentence{
	{regexp.MustCompile(`^(\w)(\d)(\w*) = (.*)$`), (*scene).version},
	{regexp.MustCompile(`^list (.*)$`), func(s *scene, w []string) { s.add(Node{Listed: true}, w[1]) }},
	{regexp.MustCompile(`^beside the list (\w), a member$`), func(s *scene, w []string) { s.add(Node{Of: w[1]}, w[1]) }},
	{regexp.MustCompile(`^beside the list (\w), to be added$`), func(s *scene, w []string) { s.add(Node{}, w[1]) }},
	{regexp.MustCompile(`^(\w) is (\w) by another name$`), func(s *scene, w []string) { s.node(w[1]).Duplicate = true }},
	{regexp.MustCompile(`^(\w) answers at (\w)$`), func(s *scene, w []string) {
		s.node(w[1]).Endpoints = append(s.node(w[1]).Endpoints, endpoint(w[2]))
	}},
	{regexp.MustCompile(`^(\w) was (\w)$`), func(s *scene, w []string) { s.node(w[1]).ID = w[2] }},
	{regexp.MustCompile(`^(\w) has not connected$`), func(s *scene, w []string) { s.node(w[1]).Met = false }},
	{regexp.MustCompile(`^(\w) forgot (\d) times$`), (*scene).livedAs},
	{regexp.MustCompile(`^only cluster (\w)$`), func(s *scene, w []string) { s.client.Named = w[1] }},
	{regexp.MustCompile(`^counts by (\w+)$`), (*scene).counts},
	{regexp.MustCompile(`^([\w ]+): told (\w+)(?: as (\w))?(, unlearned)?$`), (*scene).told},
	{regexp.MustCompile(`^([\w ]+): joins (\w+)$`), (*scene).joins},
	{regexp.MustCompile(`^([\w ]+): candidate of (\w)$`), func(s *scene, w []string) {
		s.say(w[1], record.MarkerActive, record.Place{Cluster: w[2], Joined: 1}, nil)
	}},
	{regexp.MustCompile(`^([\w ]+): forgot (\w)(?: as (\w))?(?: in life (\d))?$`), (*scene).forgot},
	{regexp.MustCompile(`^([\w ]+): forgot (\w), and has waited$`), func(s *scene, w []string) {
		s.say(w[1], record.MarkerActive, record.Place{Cluster: w[2], Life: 1}, nil)
	}},
	{regexp.MustCompile(`^([\w ]+): torn (\w+)$`), (*scene).torn},
	{regexp.MustCompile(`^([\w ]+): new$`), func(s *scene, w []string) { s.say(w[1], record.MarkerActive, record.Place{}, nil) }},
	{regexp.MustCompile(`^([\w ]+): waits for (\w)$`), (*scene).waits},
	{regexp.MustCompile(`^then$`), func(s *scene, _ []string) { s.reports = nil }},
	{regexp.MustCompile(`^=> (.*)$`), (*scene).learn},
	{regexp.MustCompile(`^(\w) of (\w+) is (\w+)$`), (*scene).memberOf},
	{regexp.MustCompile(`^looks after (\w+)$`), (*scene).lookAfter},
	{regexp.MustCompile(`^newest( of a member)?: (\w+)$`), (*scene).newest},
	{regexp.MustCompile(`^may count: (\w+)$`), (*scene).unproven},
}

func (s *scene) play(line string) {
	for _, sentence := range slices.Concat(sentences, choices, cares, standings) {
		if words := sentence.form.FindStringSubmatch(line); words != nil {
			sentence.play(s, words)
			return
		}
	}
	s.t.Fatalf("%q is no sentence of a scene", line)
}

// number reads a number of a sentence; it is 0 where there is none.
func (s *scene) number(text string) int64 {
	if text == "" {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	require.NoError(s.t, err)
	return n
}

// version defines a version, which follows the one of its cluster that was defined before.
func (s *scene) version(words []string) {
	number := s.number(words[2])
	r := &record.Roster{Cluster: words[1], Version: record.Version{Number: number, Name: "v" + words[3]}, MaxTTL: time.Minute, Earlier: time.Minute}
	if before := s.versions[words[1]+strconv.FormatInt(number-1, 10)]; before != nil {
		r.Before = before.Version
	}
	for id := range strings.FieldsSeq(words[4]) {
		r.Members = append(r.Members, record.Peer{ID: id, Endpoint: endpoint(id)})
	}
	s.versions[words[1]+words[2]+words[3]] = r
}

func endpoint(master string) string { return "redis://" + master + ":6379" }

func (s *scene) add(n Node, masters string) {
	for name := range strings.FieldsSeq(masters) {
		s.at[name] = len(s.client.Nodes)
		n.Met, n.Up, n.Endpoints = true, true, []string{endpoint(name)}
		s.client.Nodes = append(s.client.Nodes, n)
	}
}

func (s *scene) node(name string) *Node {
	at, found := s.at[name]
	require.True(s.t, found, "no node %s", name)
	return &s.client.Nodes[at]
}

func (s *scene) named(version string) *record.Roster {
	r := s.versions[version]
	require.NotNil(s.t, r, "no version %s", version)
	return r
}

// counts makes the client count by a version, whose members it has met.
func (s *scene) counts(words []string) {
	s.belief.Roster = s.named(words[1])
	for _, p := range s.belief.Roster.Members {
		if at, found := s.at[p.ID]; found {
			s.client.Nodes[at].Of = p.ID
		}
	}
}

// say has masters answer, with what their marker and their register have.
func (s *scene) say(masters string, state record.MarkerState, p record.Place, register *record.Register) {
	for name := range strings.FieldsSeq(masters) {
		s.node(name)
		p := p
		if p.Cluster != "" && p.Member == "" {
			p.Member = name
		}
		m := record.Marker{State: state, Until: 1, Incarnation: name, RunID: name, ReplID: name, MaxTTL: 60_000}.At(p)
		held := ""
		if register != nil {
			held = "1000\n" + register.Rest()
		}
		s.reports = append(s.reports, ReadReport(s.at[name], m.Text(), held, 1000))
	}
}

func (s *scene) told(words []string) {
	r := s.named(words[2])
	s.say(words[1], record.MarkerActive, record.Place{Cluster: r.Cluster, Version: r.Version, Member: words[3]}, &record.Register{Told: r, Unlearned: words[4] != ""})
}

func (s *scene) joins(words []string) {
	r := s.named(words[2])
	s.say(words[1], record.MarkerActive, record.Place{Cluster: r.Cluster, Version: r.Version, Joined: 1}, &record.Register{Told: r})
}

func (s *scene) forgot(words []string) {
	s.say(words[1], record.MarkerLost, record.Place{Cluster: words[2], Member: words[3], Life: s.number(words[4])}, nil)
}

// livedAs has the client know how many times a member of cluster C forgot.
func (s *scene) livedAs(words []string) {
	s.client.Lives[record.MemberID{Cluster: "C", Member: words[1]}] = record.Version{Number: s.number(words[2])}
}

// memberOf compares which member a master is of a version.
func (s *scene) memberOf(words []string) {
	s.checked = true
	at := slices.IndexFunc(s.reports, func(r Report) bool { return r.Node == s.at[words[1]] })
	require.GreaterOrEqual(s.t, at, 0)
	id, ours := s.client.MemberOf(&s.reports[at], s.named(words[2]), s.reports)
	if !ours {
		id = "nobody"
	}
	assert.Equal(s.t, words[3], id)
}

// lookAfter compares which version a client looks after.
func (s *scene) lookAfter(words []string) {
	s.checked = true
	got := "none"
	if r := s.client.LookAfter(s.belief.Roster, s.reports); r != nil {
		got = s.versionName(r)
	}
	assert.Equal(s.t, words[1], got)
}

// unproven compares which version may count, and was not found to.
func (s *scene) unproven(words []string) {
	s.checked = true
	got := "none"
	if r := s.client.Unproven(s.belief.Roster, s.reports); r != nil {
		got = s.versionName(r)
	}
	assert.Equal(s.t, words[1], got)
}

// newest compares the newest version that is remembered.
func (s *scene) newest(words []string) {
	s.checked = true
	got := "none"
	if r := s.client.Newest(s.reports, s.belief.Roster, words[1] != ""); r != nil {
		got = r.Cluster + strconv.FormatInt(r.Version.Number, 10)
	}
	assert.Equal(s.t, words[2], got)
}

// waits has masters wait in a life that somebody who knew the member began.
func (s *scene) waits(words []string) {
	s.say(words[1], record.MarkerLost, record.Place{Cluster: words[2], Life: 1}, nil)
}

func (s *scene) torn(words []string) {
	r := s.named(words[2])
	s.say(words[1], record.MarkerActive, record.Place{Cluster: r.Cluster, Version: r.Version}, nil)
}

// learn has the client learn what the masters said, and compares.
func (s *scene) learn(words []string) {
	s.checked = true
	want, all := strings.CutPrefix(words[1], "all have answered: ")
	s.belief = s.client.Learn(s.belief, s.reports)
	if all {
		s.belief = s.client.Concede(s.belief, s.reports)
	}
	assert.Equal(s.t, want, s.outcome())
}

// outcome says what the client believes, and the votes of which masters it counts.
func (s *scene) outcome() string {
	b := s.belief
	switch {
	case b.Conflict != nil:
		var conflict conflictError
		require.ErrorAs(s.t, b.Conflict, &conflict)
		return "conflict of " + conflict.one + " and " + conflict.other
	case b.Roster != nil:
	case b.Rival != "":
		return "nothing yet: it may be " + b.Rival
	case b.Few != "":
		return "nothing yet: too few of " + b.Few
	default:
		return "nothing"
	}
	var votes []string
	for _, r := range s.reports {
		if r.Marker.State == record.MarkerActive && b.Roster.Counts(r.Place) {
			votes = append(votes, r.Place.Member)
		}
	}
	if votes == nil {
		votes = []string{"nobody"}
	}
	slices.Sort(votes)
	v := b.Roster.Version
	return fmt.Sprintf("%s%d%s, votes of %s", b.Roster.Cluster, v.Number, strings.TrimPrefix(v.Name, "v"), strings.Join(votes, " "))
}
