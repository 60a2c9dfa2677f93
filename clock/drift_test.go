package clock_test

import (
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/redquorum/redquorum/clock"
)

func TestDriftIsRoundedAgainstTheHolder(t *testing.T) {
	for _, c := range []struct {
		rate  float64
		fixed time.Duration
		ttl   time.Duration
		want  time.Duration
	}{
		{0.01, 2 * time.Millisecond, 10 * time.Second, 102 * time.Millisecond},
		{0.01, 0, 1, 1},
		{0.01, 0, 101, 2},
		{0, 5, time.Hour, 5},
		{1e-12, 0, 1, 1}, // a rate below a billionth is rounded up to one
		{0.999999999, 0, time.Second, 999999999},
		{0.5, 7, 0, 7},
		{0.5, 7, -time.Second, 7},
		{0.9, math.MaxInt64, math.MaxInt64, math.MaxInt64},
	} {
		drift, err := clock.NewDrift(c.rate, c.fixed)
		require.NoError(t, err)
		assert.Equal(t, c.want, drift.Of(c.ttl), "%+v", c)
	}
}

func TestDriftIsNeverLessThanTheExactValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.Float64Range(0, 0.99).Draw(t, "rate")
		fixed := time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "fixed"))
		ttl := time.Duration(rapid.Int64Range(0, int64(1000*time.Hour)).Draw(t, "ttl"))
		drift, err := clock.NewDrift(rate, fixed)
		if err != nil {
			t.Fatal(err)
		}
		exact := new(big.Float).SetPrec(200).Mul(big.NewFloat(rate), new(big.Float).SetInt64(int64(ttl)))
		exact.Add(exact, new(big.Float).SetInt64(int64(fixed)))
		got := new(big.Float).SetPrec(200).SetInt64(int64(drift.Of(ttl)))
		if got.Cmp(exact) < 0 {
			t.Fatalf("got %v, less than %v", got, exact)
		}
		// The result exceeds it by at most a billionth of the TTL plus one nanosecond.
		limit := exact.Add(exact, new(big.Float).SetInt64(int64(ttl)/1e9+2))
		if got.Cmp(limit) > 0 {
			t.Fatalf("got %v, more than %v", got, limit)
		}
	})
}

func TestNewDriftRejectsRatesOutsideZeroToOne(t *testing.T) {
	for _, rate := range []float64{-0.1, 1, 1.5, 0.9999999999, math.NaN(), math.Inf(1), math.Inf(-1)} {
		_, err := clock.NewDrift(rate, 0)
		assert.Error(t, err, "rate %v", rate)
	}
	_, err := clock.NewDrift(0.01, -1)
	assert.Error(t, err)
}

func TestValidityCountsFromTheStart(t *testing.T) {
	drift, err := clock.NewDrift(0.01, 2*time.Millisecond)
	require.NoError(t, err)
	start := clock.Instant(1000)
	assert.Equal(t, start.Add(10*time.Second-102*time.Millisecond), drift.Validity(start, 10*time.Second))
}
