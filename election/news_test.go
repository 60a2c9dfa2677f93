package election

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redquorum/redquorum/internal/ledger"
)

// answerOf is the answer of a master that holds the lock of that term (0: of nobody) and has these
// on record.
func answerOf(holder int64, ttl time.Duration, recorded ...int64) ledger.Answer {
	a := ledger.Answer{Counts: true, TTL: ttl}
	if holder != 0 {
		a.Value = valueOf(holder)
	}
	for _, term := range recorded {
		a.Entries = append(a.Entries, ledger.Entry{Term: term, Value: valueOf(term)})
	}
	return a
}

func valueOf(term int64) string { return fmt.Sprintf("V%d|leader of %d", term, term) }

func leaderIn(term int64, until time.Duration) Leader {
	return Leader{ID: fmt.Sprintf("leader of %d", term), Term: term, Until: until}
}

func pageOf(answers ...ledger.Answer) ledger.Page {
	return ledger.Page{Answers: answers, Quorum: len(answers)/2 + 1, Members: len(answers)}
}

var away ledger.Answer

func TestTheLeaderIsTheHolderOfAQuorumWhoseTermIsOnRecord(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		what  string
		page  ledger.Page
		want  Leader
		known bool
	}{
		{"all say so", pageOf(answerOf(5, 3*s, 5), answerOf(5, 2*s, 5), answerOf(5, s, 5)), leaderIn(5, 2*s), true},
		{"one record", pageOf(answerOf(5, 3*s), answerOf(5, 2*s, 4, 5), answerOf(0, 0)), leaderIn(5, 2*s), true},
		{"a key that does not expire", pageOf(answerOf(5, -1, 5), answerOf(5, s, 5), answerOf(0, 0)), leaderIn(5, s), true},
		{"no record yet", pageOf(answerOf(5, s, 4), answerOf(5, s, 4), answerOf(5, s, 4)), Leader{}, true},
		{"free", pageOf(answerOf(0, 0, 4), answerOf(0, 0, 4), away), Leader{}, true},
		{"a minority holds it", pageOf(answerOf(5, s, 5), answerOf(0, 0, 5), answerOf(0, 0, 5)), Leader{}, true},
		{"split", pageOf(answerOf(5, s, 5), answerOf(6, s, 5), answerOf(7, s, 5)), Leader{}, true},
		{"the one that is away decides", pageOf(answerOf(5, s, 5), answerOf(0, 0, 5), away), Leader{}, false},
		{
			"the one that this client does not know decides",
			ledger.Page{Answers: []ledger.Answer{answerOf(5, s, 5), answerOf(6, s, 5)}, Quorum: 2, Members: 3},
			Leader{},
			false,
		},
		{
			"one that is no member decides nothing",
			ledger.Page{Answers: []ledger.Answer{answerOf(5, s, 5), answerOf(0, 0, 5), away, answerOf(0, 0, 5)}, Quorum: 2, Members: 3},
			Leader{},
			true,
		},
		{"of two, one is away", pageOf(answerOf(5, s, 5), away), Leader{}, false},
	} {
		leader, known := leaderOf(c.page)
		assert.Equal(t, c.want, leader, c.what)
		assert.Equal(t, c.known, known, c.what)
	}
}

// Each look is what the masters answer, and what Watch tells then.
func TestWatchTellsTermsUpToTheLargestOnRecordAtAQuorum(t *testing.T) {
	const s = time.Second
	type look struct {
		page ledger.Page
		want []Leader
	}
	of := func(answers ...ledger.Answer) ledger.Page { return pageOf(answers...) }
	one := func(holder int64, recorded ...int64) ledger.Answer { return answerOf(holder, s, recorded...) }
	past := func(term int64) Leader { return leaderIn(term, 0) }
	for what, looks := range map[string][]look{
		"short terms": {
			{of(one(0), one(0), one(0)), []Leader{{}}},
			{of(one(4, 2, 3, 4), one(4, 2, 3, 4), one(4, 3, 4)), []Leader{past(2), past(3), leaderIn(4, s)}},
			{of(one(0, 4), one(0, 4), one(0, 4)), []Leader{{}}},
		},
		// The first answer is from before term 2, the last from term 3. The one with 2 is away.
		"answers of different moments": {
			{of(one(1, 1), one(1, 1), one(1, 1)), []Leader{leaderIn(1, s)}},
			{of(one(1, 1), away, one(3, 1, 3)), nil},
			{of(one(3, 1, 3), one(3, 1, 2, 3), one(3, 1, 3)), []Leader{past(2), leaderIn(3, s)}},
		},
		"it begins once the term of the holder is settled": {
			{of(one(5, 5), one(5), one(0)), nil},
			{of(one(5, 5), away, one(0)), nil},
			{of(one(5, 4, 5), one(5, 5), one(0)), []Leader{leaderIn(5, s)}},
			{of(one(5, 4, 5), one(5, 5), one(0)), nil},
		},
		"a leader that is followed during the first look": {
			{of(one(1, 1), one(1, 1), one(2, 1, 2), one(1, 1, 2), one(2, 1, 2)), []Leader{leaderIn(1, s)}},
			{of(one(0, 1, 2), one(0, 1, 2), one(0, 1, 2), one(0, 1, 2), one(0, 1, 2)), []Leader{past(2)}},
			{of(one(0, 1, 2), one(0, 1, 2), one(0, 1, 2), one(0, 1, 2), one(0, 1, 2)), []Leader{{}}},
		},
		"old terms are not told": {
			{of(one(0, 1, 2), one(0, 1, 2), one(0, 1)), []Leader{{}}},
			{of(one(0, 1, 2), one(0, 1, 2), one(0, 1)), nil},
		},
		"a term ends in silence while nobody knows": {
			{of(one(1, 1), one(1, 1), one(1, 1)), []Leader{leaderIn(1, s)}},
			{of(one(1, 1), one(0, 1), away), nil},
			{of(one(0, 1), one(0, 1), away), []Leader{{}}},
			{of(one(0, 1), one(0, 1), away), nil},
		},
		"a leader whose keys were deleted is back": {
			{of(one(1, 1), one(1, 1), one(1, 1)), []Leader{leaderIn(1, s)}},
			{of(one(0, 1), one(0, 1), one(0, 1)), []Leader{{}}},
			{of(one(1, 1), one(1, 1), one(1, 1)), []Leader{leaderIn(1, s)}},
		},
		// Nobody leads as of the first two answers; the other two are newer.
		"nobody is told only if no term began meanwhile": {
			{of(one(1, 1), one(1, 1), one(1, 1), one(1, 1), one(1, 1)), []Leader{leaderIn(1, s)}},
			{of(one(0, 1), one(0, 1), one(2, 1, 2), one(0, 1, 2), one(0, 1, 2)), []Leader{past(2)}},
			{of(one(2, 1, 2), one(2, 1, 2), one(2, 1, 2), away, away), nil},
		},
	} {
		w := watcher{}
		for i, look := range looks {
			got := w.news(look.page)
			assert.True(t, slices.Equal(got, look.want), "%s, look %d: got %v, want %v", what, i+1, got, look.want)
		}
	}
}
