//go:build !linux && !darwin && !windows

package clock

const suspendAware = false

func systemNow() Instant { return runtimeNow() }
