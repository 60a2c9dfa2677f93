//go:build !linux

package clock

// newAlarm returns nil: there is none here.
func newAlarm(Instant, func()) stopper { return nil }
