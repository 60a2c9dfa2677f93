package clock

import "time"

// minAlarm is the shortest time worth an alarm. A nap that short cannot be late by more than its
// own length.
const minAlarm = 10 * time.Millisecond

// stopper is what a timer waits for: a nap or an alarm.
type stopper interface{ Stop() bool }

// WithAlarms returns a clock like clk. If clk is [System] and the platform has such timers (Linux),
// its timers fire as soon as the machine wakes past their time, not up to [MaxNap] later. Each
// pending one takes a file descriptor, so use it for the few timers that end something which must
// not go on.
func WithAlarms(clk Clock) Clock {
	if c, ok := clk.(*timed); ok && c == system {
		return systemAlarms
	}
	return clk
}
