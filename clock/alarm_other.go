//go:build !linux

package clock

// newAlarm returns nil: this platform has no alarms.
func newAlarm(Instant, func()) stopper { return nil }
