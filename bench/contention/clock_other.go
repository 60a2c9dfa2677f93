//go:build !linux && !darwin

package contention

// Supported reports whether processes share a clock here. Without one, contention cannot be
// measured.
const Supported = false

func now() Instant { panic("contention: processes share no clock here") }
