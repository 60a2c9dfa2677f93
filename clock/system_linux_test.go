package clock

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestSystemClockReadsBoottime(t *testing.T) {
	for range 10_000 {
		before := Instant(readBoottime())
		now := System().Now()
		after := Instant(readBoottime())
		if now < before.Add(-2*bootSlack) || now > after {
			t.Fatalf("%d is not in [%d, %d]", now, before, after)
		}
	}
}

func TestSystemClockNeverGoesBackForAnyGoroutine(t *testing.T) {
	var latest atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 10_000 {
				floor := latest.Load()
				now := int64(System().Now())
				if now < floor {
					t.Errorf("went back by %d ns", floor-now)
					return
				}
				for !latest.CompareAndSwap(floor, max(floor, now)) {
					floor = latest.Load()
				}
			}
		})
	}
	wg.Wait()
}

// Package time is virtual in a bubble, and must not get into a reading or a measurement.
func TestSystemClockReadsRealTimeInABubble(t *testing.T) {
	readsBoottime := func(t *testing.T) {
		t.Helper()
		before := Instant(readBoottime())
		now := System().Now()
		assert.LessOrEqual(t, before.Add(-2*bootSlack), now)
		assert.LessOrEqual(t, now, Instant(readBoottime()))
	}
	readsBoottime(t)
	today := time.Now().Round(0)
	synctest.Test(t, func(t *testing.T) {
		readsBoottime(t)
		time.Sleep(time.Until(today.Add(bootMaxAge / 2)))
		readsBoottime(t)
		time.Sleep(100 * 365 * 24 * time.Hour)
		readsBoottime(t)
	})
	readsBoottime(t)
}

// Without a monotonic reading, Sub compares wall clocks, and the gap never changes.
func TestTimesWithoutAMonotonicReadingAreTold(t *testing.T) {
	now := time.Now()
	assert.True(t, hasMonotonic(now))
	assert.False(t, hasMonotonic(now.Round(0)))
	assert.False(t, hasMonotonic(time.Unix(now.Unix(), 0)))
	assert.True(t, paired)
}

func BenchmarkSystemNow(b *testing.B) {
	for b.Loop() {
		System().Now()
	}
}

// BenchmarkBoottimeBySystemCall is what BenchmarkSystemNow is compared with.
func BenchmarkBoottimeBySystemCall(b *testing.B) {
	for b.Loop() {
		readBoottime()
	}
}

func BenchmarkSystemNowOfManyGoroutines(b *testing.B) {
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			System().Now()
		}
	})
}
