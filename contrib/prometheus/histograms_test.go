package prometheus_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	redprometheus "github.com/redquorum/redquorum/contrib/prometheus"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/redlock"
)

// counts returns how many observations each histogram has.
func counts(t *testing.T, h *redprometheus.Histograms) map[string]uint64 {
	t.Helper()
	families, err := newRegistry(t, h).Gather()
	require.NoError(t, err)
	all := map[string]uint64{}
	for _, family := range families {
		all[family.GetName()] = family.GetMetric()[0].GetHistogram().GetSampleCount()
	}
	return all
}

func TestWaitsAndHoldsFillHistograms(t *testing.T) {
	c := cluster.Start(t, 3)
	histograms := redprometheus.NewHistograms()
	var told []string
	tell := func(event string) func(*redlock.Lock) { return func(*redlock.Lock) { told = append(told, event) } }
	locker := cluster.NewConnected(t, c.URLs(), redlock.WithNodeTimeout(10*time.Second), redlock.WithHooks(histograms.Hooks(redlock.Hooks{
		Acquired: tell("acquired"), Released: tell("released"),
		Waited: func(*redlock.Lock, time.Duration) { told = append(told, "waited") },
	})))
	lock, err := locker.TryLock(t.Context(), "a")
	require.NoError(t, err)
	waited := make(chan error)
	go func() {
		lock, err := locker.Lock(t.Context(), "a")
		if err == nil {
			err = lock.Unlock(t.Context())
		}
		waited <- err
	}()
	cluster.Eventually(t, 20*time.Second, func() string {
		if locker.Stats().Waiting == 0 {
			return "a waiter"
		}
		return ""
	})
	require.NoError(t, lock.Unlock(t.Context()))
	require.NoError(t, <-waited)
	require.NoError(t, locker.Close()) // waits for the hooks
	assert.Equal(t, map[string]uint64{"redquorum_lock_wait_seconds": 1, "redquorum_lock_hold_seconds": 2}, counts(t, histograms))
	assert.Equal(t, []string{"acquired", "released", "acquired", "waited", "released"}, told)
	problems, err := testutil.GatherAndLint(newRegistry(t, histograms))
	require.NoError(t, err)
	assert.Empty(t, problems)
}

func TestALostLockWasHeld(t *testing.T) {
	c := cluster.Start(t, 3)
	histograms := redprometheus.NewHistograms(redprometheus.WithBuckets(1, 10))
	var lost error
	locker := cluster.NewConnected(t, c.URLs(), redlock.WithHooks(histograms.Hooks(redlock.Hooks{
		Lost: func(_ *redlock.Lock, err error) { lost = err },
	})))
	lock, err := locker.TryLock(t.Context(), "a", redlock.WithTTL(time.Second), redlock.WithoutRenewal())
	require.NoError(t, err)
	<-lock.Done()
	require.NoError(t, locker.Close())
	assert.Equal(t, uint64(1), counts(t, histograms)["redquorum_lock_hold_seconds"])
	assert.ErrorIs(t, lost, redlock.ErrLost)
}

func TestNamesAreLabelsOnlyWhereAskedForAndOnlySoMany(t *testing.T) {
	for name, test := range map[string]struct {
		opts []redprometheus.HistogramOption
		want map[string]uint64
	}{
		"by default": {nil, map[string]uint64{"": 5}},
		"the names": {
			[]redprometheus.HistogramOption{redprometheus.WithNames(2, nil)},
			map[string]uint64{"orders/1": 2, "orders/2": 1, redprometheus.Other: 2},
		},
		"their classes": {
			[]redprometheus.HistogramOption{redprometheus.WithNames(3, func(name string) string { return name[:4] })},
			map[string]uint64{"orde": 3, "mail": 1, "\uFFFDabc": 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := cluster.Start(t, 1)
			histograms := redprometheus.NewHistograms(test.opts...)
			locker := cluster.NewConnected(t, c.URLs(), redlock.WithNodeTimeout(10*time.Second), redlock.WithHooks(histograms.Hooks(redlock.Hooks{})))
			for _, name := range []string{"orders/1", "orders/2", "mail/1", "\xffabc", "orders/1"} {
				lock, err := locker.TryLock(t.Context(), name)
				require.NoError(t, err)
				require.NoError(t, lock.Unlock(t.Context()))
			}
			require.NoError(t, locker.Close())
			families, err := newRegistry(t, histograms).Gather()
			require.NoError(t, err)
			got := map[string]uint64{}
			for _, metric := range families[0].GetMetric() { // of holds; there were no waits
				label := ""
				for _, pair := range metric.GetLabel() {
					label = pair.GetValue()
				}
				got[label] = metric.GetHistogram().GetSampleCount()
			}
			assert.Equal(t, test.want, got)
		})
	}
}

// Hooks can be dropped. What they would have told must not be kept for ever.
func TestLocksThatEndUnheardOfAreForgotten(t *testing.T) {
	c := cluster.Start(t, 1)
	histograms := redprometheus.NewHistograms()
	hooks := histograms.Hooks(redlock.Hooks{})
	locker := cluster.NewConnected(t, c.URLs(), redlock.WithNodeTimeout(10*time.Second))
	lock, err := locker.TryLock(t.Context(), "held")
	require.NoError(t, err)
	hooks.Acquired(lock)
	for range 3000 {
		ended, err := locker.TryLock(t.Context(), "a")
		require.NoError(t, err)
		require.NoError(t, ended.Unlock(t.Context()))
		hooks.Acquired(ended) // and Released was dropped
	}
	assert.LessOrEqual(t, redprometheus.Held(histograms), 1024)
	hooks.Released(lock)
	assert.Equal(t, uint64(1), counts(t, histograms)["redquorum_lock_hold_seconds"])
}
