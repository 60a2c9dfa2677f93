//go:build !linux && !darwin

package load

import "time"

// CPUKnown reports whether processes tell their CPU time here.
const CPUKnown = false

// CPUTime returns the CPU time of this process, in user and kernel mode. Child processes do not
// count. It is 0 where it is not known.
func CPUTime() time.Duration { return 0 }
