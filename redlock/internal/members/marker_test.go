package members

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/internal/proof/spec"
)

func TestMarkersAreReadAsTheyAreWritten(t *testing.T) {
	word := rapid.StringMatching(`[A-Za-z0-9]{1,40}|-`)
	rapid.Check(t, func(t *rapid.T) {
		m := marker{
			state:       rapid.SampledFrom([]markerState{markerNew, markerLost, markerActive}).Draw(t, "state"),
			incarnation: word.Draw(t, "incarnation"), runID: word.Draw(t, "run id"), replID: word.Draw(t, "repl id"),
			durable: rapid.Bool().Draw(t, "durable"), maxTTL: rapid.Int64Range(1, maxMarkerTTL).Draw(t, "max TTL"),
			words: rapid.SampledFrom([]string{"", "needs=1", "later=x", "a=1 b=- c=x=y"}).Draw(t, "words"),
		}
		text := wordActive
		if m.state != markerActive {
			m.until = rapid.Int64Range(1, maxMarkerTime).Draw(t, "until")
			text = map[markerState]string{markerNew: wordNew, markerLost: wordLost}[m.state] + " until " + strconv.FormatInt(m.until, 10)
		}
		if got := parseMarker(text + " " + m.rest()); got != m {
			t.Fatalf("got %+v, want %+v", got, m)
		}
	})
}

func TestWhatIsNoMarkerIsUnreadable(t *testing.T) {
	assert.Equal(t, marker{}, parseMarker(""))
	for _, text := range []string{
		" ", pipeline.OtherType, "hello", "active", "active ", "active a b 0 60000", "active a b 2 60000 c", "active a b 0 0 c", "active a b 0 x c",
		"active a b 0 60000 c d", "active a b 0 60000 c =d", "active a b 0 60000 c ", "active a b 0 60000 c d=1  e=2",
		"active  b 0 60000 c", "new a b 0 60000 c", "new until x a b 0 60000 c", "new until -1 a b 0 60000 c",
		"lost until 5", "active until 5 a b 0 60000 c", "active a b 0 86400001 c", "ACTIVE a b 0 60000 c",
	} {
		assert.Equal(t, markerUnreadable, parseMarker(text).state, "%q", text)
	}
}

func TestAMarkerSaysWhichFormatItNeeds(t *testing.T) {
	for text, later := range map[string]bool{
		"active a b 0 60000 c x=1": false, "active a b 0 60000 c needs=1": false, "active a b 0 60000 c x=1 needs=2": true,
		"lost until 5 needs=3 other words": true, "new until 5 a b 0 60000 c needs=many": true,
	} {
		assert.Equal(t, later, parseMarker(text).state == markerLater, "%q", text)
	}
}

func FuzzParseMarker(f *testing.F) {
	f.Add("active a b 0 60000 c")
	f.Add("new until 5 a b 1 60000 c")
	f.Add("active a b 0 60000 c needs=2 x=1")
	f.Add("lost until 9007199254740993 a b 1 60000 c")
	f.Fuzz(func(t *testing.T, text string) {
		switch m := parseMarker(text); m.state {
		case markerAbsent:
			assert.Empty(t, text)
		case markerUnreadable:
			assert.Equal(t, marker{state: markerUnreadable}, m)
		case markerLater:
			assert.Contains(t, text, " "+wordNeeds)
			assert.Equal(t, marker{state: markerLater}, m)
		case markerNew, markerLost, markerActive:
			assert.True(t, strings.HasSuffix(text, strings.SplitN(m.rest(), " ", 2)[0]+" "+strings.SplitN(text, m.incarnation+" ", 2)[1]))
			assert.Positive(t, m.maxTTL)
		}
	})
}

func TestAPlaceIsReadAsItWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[a-z]{6}`)
		number := rapid.Int64Range(0, 9)
		p := place{
			cluster: word.Draw(t, "cluster"), member: word.Draw(t, "member"),
			joined: number.Draw(t, "joined"), life: number.Draw(t, "life"),
		}
		if n := number.Draw(t, "version"); n > 0 {
			p.version = Version{n, word.Draw(t, "name")}
		}
		roster, known := &Roster{Cluster: p.cluster}, lives{}
		for id, life := range rapid.MapOf(word, rapid.Int64Range(1, 9)).Draw(t, "others") {
			roster.Members = append(roster.Members, Peer{ID: id})
			known[seat{p.cluster, id}] = Version{life, "ABCDEF"}
		}
		delete(known, seat{p.cluster, p.member})
		p.lives = known.of(roster, p.member)
		m := marker{incarnation: "UVWXYZ12", words: "other=1"}.at(p)
		assert.Equal(t, p, m.place())
		assert.True(t, strings.HasPrefix(m.words, "other=1 "))
		read := lives{}
		read.meet(m, m.place())
		if p.life > 0 {
			known[seat{p.cluster, p.member}] = Version{p.life, "UVWXYZ"}
		}
		assert.Equal(t, known, read)
		assert.Equal(t, marker{words: "other=1"}, marker{words: m.words}.at(place{}))
	})
}

// The judgement on a node is the one of the model in which all searches for violations are made.
func TestAServerIsJudgedAsInTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bit := func(name string) bool { return rapid.Bool().Draw(t, name) }
		facts := spec.Facts{
			State: rapid.SampledFrom([]spec.State{spec.Absent, spec.New, spec.Lost, spec.Active}).Draw(t, "state"),
			Own:   bit("own"), Durable: bit("durable"), DurableNow: bit("durable now"), ReplidChanged: bit("replid changed"),
			Promoted: bit("promoted"), Elsewhere: bit("elsewhere"), Known: bit("known"), Passed: bit("passed"),
		}
		if facts.State == spec.Absent && facts.Own {
			facts.Own = false
		}
		s := server{runID: "run", replID: "repl", promoted: facts.Promoted, recalls: 10_000, durable: facts.DurableNow && !facts.Promoted, tells: true}
		m := marker{
			state: map[spec.State]markerState{
				spec.Absent: markerAbsent, spec.New: markerNew, spec.Lost: markerLost, spec.Active: markerActive,
			}[facts.State],
			incarnation: "one", runID: "run", replID: "repl", durable: facts.Durable, maxTTL: 1000, until: 500_000,
		}
		if facts.Own && facts.Durable {
			// Otherwise the marker is changed to say it is not; the model does that at the next
			// restart.
			s.durable = true
		}
		if !facts.Own {
			m.runID = "another"
		}
		if facts.ReplidChanged {
			m.replID = "another"
		}
		v := knowledge{own: !facts.Elsewhere, maxTTL: 1000, now: 499_500}
		if facts.Known {
			v.known = "before"
			// A client that knew another incarnation here does not believe that this one came back.
			v.own = false
			facts.Elsewhere = true
		}
		if facts.Passed {
			v.now = 500_000
		}
		if facts.State == spec.Absent {
			m = marker{}
		}
		if got, want := kindOf(s.judge(m, v), v.now), spec.Judge(facts); got != want {
			t.Fatalf("got %v, the model says %v: %+v", got, want, facts)
		}
	})
}

// kindOf returns what a judgement is in the model.
func kindOf(j judgement, now int64) spec.Verdict {
	word := ""
	if j.change != nil {
		word = strings.Fields(j.change.Begin)[0]
	}
	switch {
	case j.votes:
		return spec.Vote
	case word == wordNew:
		return spec.WriteNew
	case word == wordLost && j.change.Wait > 0:
		return spec.WriteLost
	case word == wordLost:
		return spec.ToLost
	case word == wordActive && j.change.Due > now:
		return spec.Wait
	case word == wordActive && j.change.Due > 0:
		return spec.Activate
	default:
		return spec.TakeRun
	}
}
