package history_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/proof/history"
)

// both returns what our own judge and porcupine find about the holds of a name: they must find the
// same.
func both(t *testing.T, holds []*history.Hold, tokensOnly bool, about string) (wrong bool) {
	t.Helper()
	for _, h := range holds {
		h.Names = []string{"a"}
		if h.Permits > 0 {
			h.Names = []string{"a#1"}
		}
	}
	for _, c := range history.Judge(holds, tokensOnly) {
		if c.Name == "a#1" {
			continue // many hold one slot here
		}
		require.Empty(t, c.Disagreement(), "%s: %v\n%+v", about, c.Found, history.Events(c.Name, c.Holds))
		wrong = wrong || len(c.Found) > 0
	}
	return wrong
}

func TestNobodyHasALockWithinAMinimumHold(t *testing.T) {
	holds := func() []*history.Hold {
		return []*history.Hold{{Names: []string{"a"}, From: 10, To: 20, Kept: 40}, {Names: []string{"a"}, Since: 15, From: 39, To: 45}}
	}
	early := holds()
	assert.Len(t, history.All(history.Judge(early, false)), 1)
	late := holds()
	late[1].From = 40
	assert.Empty(t, history.All(history.Judge(late, false)))
}

// Histories of all kinds, right and wrong.
func TestJudgesKnowWhatEachKindOfLockAllows(t *testing.T) {
	type holds = []*history.Hold
	const tokensOnly = true
	for _, in := range []struct {
		about      string
		had        holds
		wrong      bool
		tokensOnly bool
	}{
		{"nothing", nil, false, false},
		{"one after the other", holds{{From: 1, To: 2}, {From: 2, To: 3}}, false, false},
		{"together", holds{{From: 1, To: 3}, {From: 2, To: 4}}, true, false},
		{"one that nobody released", holds{{From: 1, To: history.Held}}, false, false},
		{"released too late", holds{{From: 1, To: 4, Confirmed: true, Returned: 5}, {From: 3, To: 9, Confirmed: true, Returned: 9}}, true, false},
		{"released in time, and told late", holds{{From: 1, To: 3, Confirmed: true, Returned: 8}, {From: 3, To: 9}}, false, false},
		{"within another for no time", holds{{From: 1, To: 9}, {From: 5, To: 5, Confirmed: true, Returned: 6}}, true, false},
		{"called together", holds{{Since: 1, From: 8, To: 9}, {Since: 1, From: 2, To: 3}}, false, false},

		{"tokens that grow", holds{{From: 1, To: 2, Token: 8}, {From: 2, To: 3}, {From: 3, To: 4, Token: 9}}, false, false},
		{"tokens that shrink", holds{{From: 1, To: 2, Token: 9}, {From: 2, To: 3, Token: 8}}, true, false},
		{"tokens that repeat", holds{{From: 1, To: 2, Token: 9}, {From: 2, To: 3}, {From: 3, To: 4, Token: 9}}, true, false},
		{"two holders with tokens", holds{{From: 1, To: 9, Token: 1}, {Since: 2, From: 3, To: 9, Token: 2}}, false, tokensOnly},
		{"tokens that cross", holds{{Since: 1, From: 3, To: 3, Token: 2}, {Since: 2, From: 4, To: 4, Token: 1}}, false, tokensOnly},
		{"tokens in the wrong order", holds{{From: 1, To: 9, Token: 2}, {Since: 2, From: 3, To: 9, Token: 1}}, true, tokensOnly},

		{"readers", holds{{From: 1, To: 5, Shared: true}, {From: 2, To: 4, Shared: true}, {From: 5, To: 6}}, false, false},
		{"a writer beside readers", holds{{From: 1, To: 5, Shared: true}, {From: 2, To: 4, Shared: true}, {From: 4, To: 6}}, true, false},
		{"a reader beside a writer", holds{{From: 1, To: 5}, {From: 4, To: 6, Shared: true}}, true, false},
		{
			"tokens of readers",
			holds{{From: 1, To: 2, Token: 3}, {From: 2, To: 4, Token: 5, Shared: true}, {From: 3, To: 4, Token: 3, Shared: true}, {From: 4, To: 5, Token: 6}},
			false, false,
		},
		{"readers with tokens in any order", holds{{From: 1, To: 5, Token: 3, Shared: true}, {From: 2, To: 4, Token: 2, Shared: true}}, false, false},
		{"a reader below a writer", holds{{From: 1, To: 2, Token: 3}, {From: 2, To: 4, Token: 2, Shared: true}}, true, false},
		{"a writer like a reader", holds{{From: 1, To: 2, Token: 3, Shared: true}, {From: 2, To: 4, Token: 3}}, true, false},

		{"as many permits as there are", permitsAt(2, 0, 10, 5, 15, 10, 20, 15, 16), false, false},
		{"a permit too many", permitsAt(2, 0, 10, 5, 15, 9, 20), true, false},
		{"a permit too many for a moment", permitsAt(2, 0, 10, 5, 15, 9, 9), true, false},
		{"another number when all are free", append(permitsAt(2, 0, 10, 5, 15), permitsAt(3, 15, 20, 15, 20, 15, 20)...), false, false},
		{"another number while one is held", append(permitsAt(2, 0, 10), permitsAt(3, 5, 20)...), true, false},
	} {
		assert.Equal(t, in.wrong, both(t, in.had, in.tokensOnly, in.about), in.about)
	}
}

// permitsAt returns permits of one number, each from one instant to the next.
func permitsAt(permits int, at ...clock.Instant) (all []*history.Hold) {
	for i := 0; i < len(at); i += 2 {
		all = append(all, &history.Hold{From: at[i], To: at[i+1], Permits: permits})
	}
	return all
}

func TestNamesDoNotDependOnEachOther(t *testing.T) {
	cases := history.Judge([]*history.Hold{
		{Names: []string{"a", "b"}, From: 1, To: 2}, {Names: []string{"b", "c"}, From: 1, To: 2},
	}, false)
	for i, c := range cases {
		assert.Equal(t, []string{"a", "b", "c"}[i], c.Name)
		assert.Equal(t, c.Name == "b", len(c.Found) > 0, c.Name)
		assert.Empty(t, c.Disagreement())
	}
}

// Random histories: some are right, and the two judges find the same about each.
func TestJudgesAgreeAboutRandomHistories(t *testing.T) {
	seed, _ := history.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	found := map[bool]int{}
	for range 3000 {
		tokensOnly := rng.IntN(4) == 0
		found[both(t, randomHolds(rng, 2+rng.IntN(5), tokensOnly), tokensOnly, fmt.Sprint("seed ", seed))]++
	}
	assert.Greater(t, min(found[false], found[true]), 300, "seed %d: both kinds were found: %v", seed, found)
}

// randomHolds returns holds that follow each other, more or less.
func randomHolds(rng *rand.Rand, count int, tokensOnly bool) (had []*history.Hold) {
	now, token := clock.Instant(10), int64(10)
	slip := func(n int) int { return max(rng.IntN(20)-20+n, 0) } // usually none
	for range count {
		from := max(now-clock.Instant(slip(3)), 0)
		if len(had) > 0 {
			from = max(from, had[len(had)-1].From)
		}
		h := &history.Hold{
			Since: max(from-clock.Instant(rng.IntN(10)), 0), From: from, To: from + clock.Instant(rng.IntN(5)),
			Shared: !tokensOnly && rng.IntN(3) == 0, Confirmed: rng.IntN(2) == 0, Who: fmt.Sprint("client ", len(had)),
		}
		h.Returned = h.To + clock.Instant(rng.IntN(5))
		if rng.IntN(4) > 0 {
			h.Token = max(token-int64(slip(3)), 1)
			token = max(token, h.Token) + int64(rng.IntN(3))
		}
		now = max(now, h.To)
		had = append(had, h)
	}
	return had
}

// Readers come by turns with a writer. Their calls are longer than a turn, and nobody knows when
// their releases took effect: the times that fit are few among very many.
func TestJudgesDecideHistoriesOfReadersThatNobodyConfirmed(t *testing.T) {
	var had []*history.Hold
	for turn := range clock.Instant(40) {
		from := 1000 * (turn + 1)
		for i := range clock.Instant(12) {
			had = append(had, &history.Hold{Since: from - 900 + i, From: from + i, To: from + 100 + i, Shared: true, Returned: from + 200})
		}
		had = append(had, &history.Hold{Since: from - 950, From: from + 300, To: from + 400, Returned: from + 500})
	}
	assert.False(t, both(t, had, false, "by turns"))
	had[len(had)-1].From = had[len(had)-2].To - 1
	assert.True(t, both(t, had, false, "a writer too early"))
}

// Many call together for a long time, and the one that called last has the first token. The two
// judges must decide that, too, in histories of any length.
func TestJudgesDecideLongHistoriesOfTokens(t *testing.T) {
	for _, tokensOnly := range []bool{false, true} {
		var had []*history.Hold
		for round := range clock.Instant(100) {
			const crowd = 30
			for i := range clock.Instant(crowd) {
				h := &history.Hold{Since: 1000*round + crowd - i, From: 1000*round + 100 + 10*i, Token: int64(crowd*round + i + 1)}
				if h.To = h.From + 10; tokensOnly {
					h.To = 200_000
				}
				h.Confirmed, h.Returned = !tokensOnly, h.To+1
				had = append(had, h)
			}
		}
		assert.False(t, both(t, had, tokensOnly, "in order"))
		for _, swapped := range []int{2, 1500, 2996} {
			late, early := had[swapped-2], had[swapped+30-swapped%30-1]
			late.Token, early.Token = early.Token, late.Token
			early.Since = early.From - 1
			late.Since = late.From - 1
			assert.True(t, both(t, had, tokensOnly, "out of order"))
			late.Token, early.Token = early.Token, late.Token
		}
	}
}
