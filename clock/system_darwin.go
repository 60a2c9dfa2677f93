package clock

import "golang.org/x/sys/unix"

const suspendAware = true

// systemNow reads CLOCK_MONOTONIC, which on darwin counts the time that the machine sleeps.
// (CLOCK_UPTIME_RAW does not, and package time uses that one.)
func systemNow() Instant {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic("clock: CLOCK_MONOTONIC: " + err.Error()) // available since macOS 10.12
	}
	return Instant(now.Nano())
}
