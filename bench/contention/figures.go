package contention

import (
	"math"
	"time"
)

// AcquisitionsPerSecond returns how often the name was acquired.
func (r *Result) AcquisitionsPerSecond() float64 { return r.perSecond(r.Acquisitions) }

// GoroutineChangesPerSecond returns how often the name went from one goroutine to another, in any
// process.
func (r *Result) GoroutineChangesPerSecond() float64 { return r.perSecond(r.GoroutineChanges) }

// ProcessChangesPerSecond returns how often the name went from one process to another.
func (r *Result) ProcessChangesPerSecond() float64 { return r.perSecond(r.ProcessChanges) }

// CommandsPerAcquisition returns NaN if there was none.
func (r *Result) CommandsPerAcquisition() float64 { return ratio(r.Commands, r.Acquisitions) }

// CommandsPerGoroutineChange returns NaN if there was none.
func (r *Result) CommandsPerGoroutineChange() float64 { return ratio(r.Commands, r.GoroutineChanges) }

// CommandsPerProcessChange returns NaN if there was none.
func (r *Result) CommandsPerProcessChange() float64 { return ratio(r.Commands, r.ProcessChanges) }

// MeanWait returns 0 if nobody waited.
func (r *Result) MeanWait() time.Duration {
	if len(r.Waits) == 0 {
		return 0
	}
	var sum time.Duration
	for _, wait := range r.Waits {
		sum += wait
	}
	return sum / time.Duration(len(r.Waits))
}

// Wait returns a percentile of the waits, 0 < percent <= 100; 100 is the longest. It is 0 if nobody
// waited.
func (r *Result) Wait(percent int) time.Duration { return percentile(r.Waits, percent) }

// Gap returns a percentile of the gaps, 0 < percent <= 100. It is 0 if there is none.
func (r *Result) Gap(percent int) time.Duration { return percentile(r.Gaps, percent) }

func (r *Result) perSecond(n int) float64 { return float64(n) / r.Window.Seconds() }

func ratio(commands uint64, by int) float64 {
	if by == 0 {
		return math.NaN()
	}
	return float64(commands) / float64(by)
}

// percentile returns the shortest of the sorted durations that at least percent of them do not
// exceed, or 0 if there are none.
func percentile(sorted []time.Duration, percent int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[(len(sorted)*percent+99)/100-1]
}
