package clock

import "golang.org/x/sys/unix"

const suspendAware = true

// systemNow reads CLOCK_BOOTTIME, which unlike CLOCK_MONOTONIC counts the time that the machine
// sleeps. It is available since Linux 2.6.39; older kernels are not supported.
func systemNow() Instant {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		panic("clock: CLOCK_BOOTTIME: " + err.Error())
	}
	return Instant(now.Nano())
}
