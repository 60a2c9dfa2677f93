package redlock

import "github.com/redquorum/redquorum/clock"

// TakenUntil returns until when the name of a lock is taken because of its minimum hold, or 0.
func TakenUntil(lock *Lock) clock.Instant {
	if lock.minHold == 0 {
		return 0
	}
	return lock.acquired.Add(lock.minimum())
}
