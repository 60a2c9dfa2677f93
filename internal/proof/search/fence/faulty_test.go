package fence

import (
	"testing"

	"github.com/redquorum/redquorum/internal/proof/search"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOneFaultyNodeDoesNotBreakTheTokens(t *testing.T) {
	right := Faulty{Limit: 0, Ahead: 2, Highest: 6} // twice the TTL
	farther := Faulty{Limit: 1, Ahead: 3, Highest: 7}
	for _, test := range []struct {
		name     string
		size     search.Size
		horizon  int
		attempts int
		losses   int
		faulty   Faulty
		with     func(*Faulty)
		broken   bool
	}{
		{"as it is, briefly", search.Large, 3, 2, 1, right, nil, false},
		{"as it is, with one more attempt", search.Soak, 3, 3, 1, right, nil, false},
		{"as it is, for longer", search.Soak, 4, 3, 1, right, nil, false},
		{"as it is, twice", search.Soak, 3, 3, 2, right, nil, false},
		{"as it is, further ahead", search.Soak, 3, 3, 1, farther, nil, false},
		{"mend to less than two attempts ahead", search.Soak, 3, 3, 1, right, func(f *Faulty) { f.Ahead = 1 }, true},
		{"mend to less than what nodes follow and two attempts ahead", search.Soak, 3, 3, 1, farther, func(f *Faulty) { f.Ahead = 2 }, true},
		{"mend to the token", search.Soak, 3, 3, 1, right, func(f *Faulty) { f.MendToGranted = true }, true},
		{"mend without a quorum of others", search.Large, 5, 3, 0, right, func(f *Faulty) { f.MendUnconfirmed = true }, true},
		{"mend anyone's key", search.Soak, 4, 3, 1, right, func(f *Faulty) { f.MendAnyones = true }, true},
		{"follow anything that is granted elsewhere", search.Soak, 3, 3, 1, right, func(f *Faulty) { f.FollowAnything = true }, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.size.Skip(t)
			if test.with != nil {
				test.with(&test.faulty)
			}
			report := ExploreRestarts(RestartConfig{
				TTL: 1, Horizon: test.horizon, Losses: test.losses, Attempts: test.attempts, Bare: true, Faulty: &test.faulty,
			})
			require.Equal(t, test.broken, report.Broken, "%v", report)
			if test.broken {
				report.Count = nil
				t.Log(report)
				return
			}
			t.Log(report)
			assert.GreaterOrEqual(t, report.States, 20_000)
			for _, kind := range []Kind{Acquired, Spoiled, NotFollowed, Mended, Raised, RaisedInVain, WonFirst, WonSecond, GaveUp, Ticked} {
				assert.Positive(t, report.Count[kind], "never: %v", kind)
			}
		})
	}
}
