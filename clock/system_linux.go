package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

const suspendAware = true

var (
	boot = newBootClock()

	// processStart is the origin of readMono.
	processStart = time.Now()

	// paired is false if package time left the monotonic reading out of processStart.
	paired = hasMonotonic(processStart)
)

// systemNow reads CLOCK_BOOTTIME, which unlike CLOCK_MONOTONIC counts the time that the machine
// sleeps. It is available since Linux 2.6.39; older kernels are not supported.
//
// It uses [bootClock], because a system call at each reading takes three times as long. If the
// clock source has no vDSO, package time makes two system calls instead.
func systemNow() Instant {
	now := time.Now()
	if !paired || !hasMonotonic(now) {
		return Instant(readBoottime())
	}
	r := wallMono{wall: now.UnixNano(), mono: int64(now.Sub(processStart))}
	if instant, ok := boot.at(r); ok {
		return instant
	}
	return boot.measure(r, readBoottime, readMono)
}

// hasMonotonic reports whether t has a monotonic reading. Without one, Sub would compare wall
// clocks. Package time leaves it out in a testing/synctest bubble, whose wall clock is not ours
// either, and after the year 2157.
func hasMonotonic(t time.Time) bool { return t != t.Round(0) }

// readMono reads CLOCK_MONOTONIC, which is the clock of package time.
func readMono() int64 { return int64(time.Since(processStart)) }

func readBoottime() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		panic("clock: CLOCK_BOOTTIME: " + err.Error())
	}
	return now.Nano()
}
