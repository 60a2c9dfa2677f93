package wire

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/journal"
)

// note adds an entry to the history of a key with the prefix "p:".
func (s *server) note(key, kind, id string) {
	s.t.Helper()
	assert.Equal(s.t, int64(1), s.ask(LogOf(&journal.Entry{Millis: time.Now().UnixMilli(), ID: id, Kind: kind, Key: key}, "p:")))
}

// history returns the entries about a key, the newest of each kind first.
func (s *server) history(key string) (ids []string) {
	s.t.Helper()
	for _, text := range ReadTexts(s.ask(LoggedOf(key))) {
		entries := journal.About(key, journal.Merge([][]string{{text}}))
		for _, e := range entries {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

func TestTheHistoryOfANameIsBounded(t *testing.T) {
	const kept, mostNames, life = 64, 256, 30 * 24 * time.Hour // as the documentation says
	s := newServer(t)
	s.connect(t)
	for i := range kept + 5 {
		s.note("p:job", journal.Ran, fmt.Sprint("run", i))
	}
	for i := range kept + 5 {
		s.note("p:job", journal.Refused, fmt.Sprint("miss", i))
	}
	ids := s.history("p:job")
	require.Len(t, ids, 2*kept, "misses push out no runs")
	assert.Equal(t, fmt.Sprint("run", kept+4), ids[0])
	assert.Equal(t, fmt.Sprint("miss", kept+4), ids[kept])

	for i := range mostNames - 1 {
		s.note(fmt.Sprint("p:", i), journal.Ran, "x")
	}
	assert.Len(t, s.history("p:job"), 2*kept)
	s.ask(LogOf(&journal.Entry{ID: "x", Kind: journal.Ran, Key: "other:job"}, "other:"))
	assert.Len(t, s.history("p:job"), 2*kept, "each prefix has its own bound")
	s.note("p:0", journal.Refused, "y")
	s.note("p:one more", journal.Ran, "x")
	assert.Empty(t, s.history("p:job"), "the name that was used longest ago")
	assert.Len(t, s.history("p:0"), 2)
	assert.Equal(t, int64(mostNames), s.do("ZCARD", LogKey+":p:#names"))
	assert.Equal(t, int64(0), s.do("EXISTS", LogKey+":p:job", LogKey+":p:job"+missed))

	keys, _ := s.do("KEYS", LogKey+":*").([]any)
	assert.Len(t, keys, mostNames+1+3)
	for _, key := range keys {
		assert.InDelta(t, life.Milliseconds(), s.do("PTTL", key), 60_000, "%s", key)
	}
}

// Names are arbitrary bytes, and what ends the key of misses is one that somebody else may have.
func TestTheHistoryOfANameIsOfThatName(t *testing.T) {
	s := newServer(t)
	s.connect(t)
	keys := []string{
		"p:a", "p:a#missed", "p:#names", "p:\xff\xfe", "p:" + strings.Repeat("n", journal.MostName-2), "p:" + strings.Repeat("\x00", 700),
	}
	for i, key := range keys {
		s.note(key, journal.Ran, fmt.Sprint("ran", i))
		s.note(key, journal.Refused, fmt.Sprint("refused", i))
	}
	for i, key := range keys {
		assert.ElementsMatch(t, []string{fmt.Sprint("ran", i), fmt.Sprint("refused", i)}, s.history(key), "%q", key)
	}
}

// Whoever may write to the index of a prefix alone would have others delete locks.
func TestTheIndexOfHistoriesDeletesNothingElse(t *testing.T) {
	s := newServer(t)
	s.connect(t)
	strange := []string{"p:held", LogKey + ":other:job", LogKey, ""}
	for i := range journal.MostNames + len(strange) {
		if i < len(strange) {
			s.do("SET", strange[i], "x")
			s.do("ZADD", LogKey+":p:#names", i, strange[i])
			continue
		}
		s.note(fmt.Sprint("p:", i), journal.Ran, "x")
	}
	assert.Equal(t, int64(journal.MostNames), s.do("ZCARD", LogKey+":p:#names"))
	for _, key := range strange {
		assert.Equal(t, int64(1), s.do("EXISTS", key), "%q", key)
	}
}

// Whoever reads the history can release nobody's lock.
func TestTheHistoryTellsTheHolderWithoutItsValue(t *testing.T) {
	s := newServer(t)
	s.connect(t)
	for value, want := range map[string]string{
		pairForm + "@1000000000|me@web-1:7 app":                                       "me@web-1:7 app 1000000000000",
		pairForm + "@1000000000|lease;door=http;from=ann:5;owner=worker;token=secret": "worker (by http, from ann:5) 1000000000000",
		pairForm + "@99999999999|came later":                                          " 0",
		"another library's":                                                           " 0",
		pairForm + "no time":                                                          "no time 0",

		pairForm + "@1000000000|" + strings.Repeat("\xff", 1000) + "secret that is ours": "? 1000000000000",
	} {
		s.do("FLUSHALL")
		s.do("SET", "p:a", value)
		e := journal.Entry{Millis: time.Now().UnixMilli(), ID: "x", Kind: journal.Refused, Key: "p:a", AskHolder: true}
		s.ask(LogOf(&e, "p:"))
		texts := ReadTexts(s.ask(LoggedOf("p:a")))
		assert.NotContains(t, fmt.Sprint(texts), "ABCDEF")
		assert.NotContains(t, fmt.Sprint(texts), "secret")
		log := journal.Merge([][]string{texts})
		require.Len(t, log, 1)
		assert.Equal(t, want, fmt.Sprint(log[0].Holder, " ", log[0].SinceMillis))
	}
}

func TestNotesAreTakenOfNoNameThatEndsAsTheirOwnKeysDo(t *testing.T) {
	for _, key := range []string{"a", "", "#", "names", "#namesake", strings.Repeat("n", 1024)} {
		assert.True(t, HasHistory(key), key)
	}
	for _, key := range []string{"#names", "p:#names", "a#missed", strings.Repeat("n", 1025)} {
		assert.False(t, HasHistory(key), key)
	}
}
