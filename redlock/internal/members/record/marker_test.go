package record

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"github.com/redquorum/redquorum/internal/pipeline"
)

func TestMarkersAreReadAsTheyAreWritten(t *testing.T) {
	word := rapid.StringMatching(`[A-Za-z0-9]{1,40}|-`)
	rapid.Check(t, func(t *rapid.T) {
		m := Marker{
			State:       rapid.SampledFrom([]MarkerState{MarkerNew, MarkerLost, MarkerActive}).Draw(t, "state"),
			Incarnation: word.Draw(t, "incarnation"), RunID: word.Draw(t, "run id"), ReplID: word.Draw(t, "repl id"),
			Durable: rapid.Bool().Draw(t, "durable"), MaxTTL: rapid.Int64Range(1, maxMarkerTTL).Draw(t, "max TTL"),
			Words: rapid.SampledFrom([]string{"", "needs=1", "later=x", "a=1 b=- c=x=y"}).Draw(t, "words"),
		}
		text := WordActive
		if m.State != MarkerActive {
			m.Until = rapid.Int64Range(1, maxMarkerTime).Draw(t, "until")
			text = map[MarkerState]string{MarkerNew: WordNew, MarkerLost: WordLost}[m.State] + " until " + strconv.FormatInt(m.Until, 10)
		}
		if got := ParseMarker(text + " " + m.Rest()); got != m {
			t.Fatalf("got %+v, want %+v", got, m)
		}
	})
}

func TestWhatIsNoMarkerIsUnreadable(t *testing.T) {
	assert.Equal(t, Marker{}, ParseMarker(""))
	for _, text := range []string{
		" ", pipeline.OtherType, "hello", "active", "active ", "active a b 0 60000", "active a b 2 60000 c", "active a b 0 0 c", "active a b 0 x c",
		"active a b 0 60000 c d", "active a b 0 60000 c =d", "active a b 0 60000 c ", "active a b 0 60000 c d=1  e=2",
		"active  b 0 60000 c", "new a b 0 60000 c", "new until x a b 0 60000 c", "new until -1 a b 0 60000 c",
		"lost until 5", "active until 5 a b 0 60000 c", "active a b 0 86400001 c", "ACTIVE a b 0 60000 c",
	} {
		assert.Equal(t, MarkerUnreadable, ParseMarker(text).State, "%q", text)
	}
}

func TestAMarkerSaysWhichFormatItNeeds(t *testing.T) {
	for text, later := range map[string]bool{
		"active a b 0 60000 c x=1": false, "active a b 0 60000 c needs=1": false, "active a b 0 60000 c x=1 needs=2": true,
		"lost until 5 needs=3 other words": true, "new until 5 a b 0 60000 c needs=many": true,
	} {
		assert.Equal(t, later, ParseMarker(text).State == MarkerLater, "%q", text)
	}
}

func FuzzParseMarker(f *testing.F) {
	f.Add("active a b 0 60000 c")
	f.Add("new until 5 a b 1 60000 c")
	f.Add("active a b 0 60000 c needs=2 x=1")
	f.Add("lost until 9007199254740993 a b 1 60000 c")
	f.Fuzz(func(t *testing.T, text string) {
		switch m := ParseMarker(text); m.State {
		case MarkerAbsent:
			assert.Empty(t, text)
		case MarkerUnreadable:
			assert.Equal(t, Marker{State: MarkerUnreadable}, m)
		case MarkerLater:
			assert.Contains(t, text, " "+wordNeeds)
			assert.Equal(t, Marker{State: MarkerLater}, m)
		case MarkerNew, MarkerLost, MarkerActive:
			assert.True(t, strings.HasSuffix(text, strings.SplitN(m.Rest(), " ", 2)[0]+" "+strings.SplitN(text, m.Incarnation+" ", 2)[1]))
			assert.Positive(t, m.MaxTTL)
		}
	})
}

func TestAPlaceIsReadAsItWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[a-z]{6}`)
		number := rapid.Int64Range(0, 9)
		p := Place{
			Cluster: word.Draw(t, "cluster"), Member: word.Draw(t, "member"),
			Joined: number.Draw(t, "joined"), Life: number.Draw(t, "life"),
		}
		if n := number.Draw(t, "version"); n > 0 {
			p.Version = Version{n, word.Draw(t, "name")}
		}
		roster, known := &Roster{Cluster: p.Cluster}, Lives{}
		for id, life := range rapid.MapOf(word, rapid.Int64Range(1, 9)).Draw(t, "others") {
			roster.Members = append(roster.Members, Peer{ID: id})
			known[MemberID{p.Cluster, id}] = Version{life, "ABCDEF"}
		}
		delete(known, MemberID{p.Cluster, p.Member})
		p.Lives = known.Of(roster, p.Member)
		m := Marker{Incarnation: "UVWXYZ12", Words: "other=1"}.At(p)
		assert.Equal(t, p, m.Place())
		assert.True(t, strings.HasPrefix(m.Words, "other=1 "))
		read := Lives{}
		read.Meet(m, m.Place())
		if p.Life > 0 {
			known[MemberID{p.Cluster, p.Member}] = Version{p.Life, "UVWXYZ"}
		}
		assert.Equal(t, known, read)
		assert.Equal(t, Marker{Words: "other=1"}, Marker{Words: m.Words}.At(Place{}))
	})
}
