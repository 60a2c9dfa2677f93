//go:build linux || darwin

package contention

import "golang.org/x/sys/unix"

// Supported reports whether processes share a clock here. Without one, contention cannot be
// measured.
const Supported = true

func now() Instant {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // only a wrong argument makes it fail
	}
	return Instant(t.Nano())
}
