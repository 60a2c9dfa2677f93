package fence

import (
	"testing"

	"github.com/redquorum/redquorum/internal/proof/search"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNodeThatLostItsCountersStaysOutForLongerThanAttemptsAndSkew(t *testing.T) {
	for _, test := range []struct {
		name   string
		size   search.Size
		config RestartConfig
		broken bool
	}{
		{"not out at all", search.Always, RestartConfig{TTL: 1, Out: 0, Horizon: 4, Losses: 1}, true},
		{"the TTL", search.Always, RestartConfig{TTL: 1, Out: 1, Horizon: 4, Losses: 1}, true},
		{"longer than the TTL", search.Large, RestartConfig{TTL: 1, Out: 2, Horizon: 3, Losses: 1}, false},
		{"longer than the TTL, for longer", search.Soak, RestartConfig{TTL: 1, Out: 2, Horizon: 4, Losses: 1}, false},
		{"the TTL and twice the skew", search.Soak, RestartConfig{TTL: 1, Skew: 1, Out: 3, Horizon: 4, Losses: 1}, true},
		{"the TTL and twice the skew, bare", search.Large, RestartConfig{TTL: 1, Skew: 1, Out: 3, Horizon: 4, Losses: 1, Bare: true, Attempts: 3}, true},
		{"longer than the TTL and twice the skew, bare", search.Soak, RestartConfig{TTL: 1, Skew: 1, Out: 4, Horizon: 5, Losses: 1, Bare: true, Attempts: 3}, false},
		{"expired after the TTL", search.Always, RestartConfig{TTL: 1, Out: 1, Horizon: 4, Losses: 1, Unused: true}, true},
		{"expired after longer than the TTL", search.Large, RestartConfig{TTL: 1, Out: 2, Horizon: 4, Losses: 1, Unused: true}, false},
		{"expired after longer than the TTL, for longer", search.Soak, RestartConfig{TTL: 1, Out: 2, Horizon: 5, Losses: 1, Unused: true}, false},
		{"expired after the TTL and twice the skew", search.Soak, RestartConfig{TTL: 1, Skew: 1, Out: 3, Horizon: 4, Losses: 1, Unused: true}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.size.Skip(t)
			report := ExploreRestarts(test.config)
			require.Equal(t, test.broken, report.Broken, "%v", report)
			if test.broken {
				report.Count = nil
				t.Log(report)
				return
			}
			t.Log(report)
			assert.GreaterOrEqual(t, report.States, 100_000)
			kinds := []Kind{
				Acquired, CounterLost, Ticked, Raised, WonFirst, WonSecond, GaveUp, ExpiredPresent, ExpiredOver,
			}
			if !test.config.Bare {
				kinds = append(kinds, AcquiredLate)
			}
			if !test.config.Unused {
				kinds = append(kinds, AcquiredOut)
			}
			for _, kind := range kinds {
				assert.Positive(t, report.Count[kind], "never: %v", kind)
			}
		})
	}
}
