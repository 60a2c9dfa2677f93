//go:build linux || darwin

package contention

import (
	"time"

	"golang.org/x/sys/unix"
)

// Supported reports whether processes share a clock here, and tell their CPU time. Without a clock,
// contention cannot be measured.
const Supported = true

func now() Instant {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // only a wrong argument makes it fail
	}
	return Instant(t.Nano())
}

// CPUTime returns the CPU time of this process, in user and kernel mode. Child processes do not
// count. It is 0 where there is no [Supported] clock.
func CPUTime() time.Duration {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		panic(err) // only a wrong argument makes it fail
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
