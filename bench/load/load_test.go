package load

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLoadBeginsEveryOperationOnce(t *testing.T) {
	var began [10]atomic.Int32
	l := Load{Goroutines: 3, Operations: len(began), Each: 4, Do: func(_ context.Context, first, count int) error {
		for i := first; i < first+count; i++ {
			began[i].Add(1)
		}
		return nil
	}}
	s, err := l.Measure(t.Context())
	require.NoError(t, err)
	assert.Equal(t, len(began), s.Done)
	for i := range began {
		assert.EqualValues(t, 1, began[i].Load(), "operation %d", i)
	}
	assert.Nil(t, s.Latency, "of several goroutines")
}

func TestLoadReturnsTheErrorOfAnOperationAndStops(t *testing.T) {
	broken, last := errors.New("broken"), 0
	l := Load{Goroutines: 1, Operations: 100, Do: func(_ context.Context, first, _ int) error {
		if last = first; first == 7 {
			return broken
		}
		return nil
	}}
	s, err := l.Measure(t.Context())
	require.ErrorIs(t, err, broken)
	assert.Equal(t, 7, last)
	assert.Equal(t, 7, s.Done)
	assert.Len(t, s.Latency, 7)
}

func TestPercentilesCountFromTheShortest(t *testing.T) {
	assert.Zero(t, Percentile(nil, 500))
	for _, c := range []struct {
		n, permille int
		want        time.Duration
	}{
		{1, 500, 1},
		{1, 990, 1},
		{2, 500, 1},
		{3, 500, 2},
		{100, 990, 99},
		{100, 1000, 100},
		{101, 990, 100},
		{1000, 999, 999},
		{1001, 999, 1000},
	} {
		sorted := make([]time.Duration, c.n)
		for i := range sorted {
			sorted[i] = time.Duration(i + 1)
		}
		assert.Equal(t, c.want, Percentile(sorted, c.permille), "%d per mille of 1..%d", c.permille, c.n)
	}
}
