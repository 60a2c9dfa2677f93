//go:build !linux && !darwin

package contention

import "time"

// Supported reports whether processes share a clock here, and tell their CPU time. Without a clock,
// contention cannot be measured.
const Supported = false

func now() Instant { panic("contention: processes share no clock here") }

// CPUTime returns the CPU time of this process, in user and kernel mode. Child processes do not
// count. It is 0 where there is no [Supported] clock.
func CPUTime() time.Duration { return 0 }
