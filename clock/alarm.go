package clock

import "time"

// minAlarm is the shortest time that is worth an alarm: a nap of that length is late by no more.
const minAlarm = 10 * time.Millisecond

// stopper is what a timer waits for, a nap or an alarm.
type stopper interface{ Stop() bool }

// WithAlarms returns a clock like clk. Where clk is [System] and the platform has such timers
// (Linux), its timers fire as soon as the machine wakes past their time, and not up to [MaxNap]
// later. Each that is pending takes a file descriptor: it is for the few that end something which
// must not go on.
func WithAlarms(clk Clock) Clock {
	if c, ok := clk.(*timed); ok && c == system {
		return systemAlarms
	}
	return clk
}
