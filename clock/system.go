package clock

import "time"

// System returns the clock of this machine: one that cannot be set, and that goes on while the machine sleeps where
// the platform has such a clock ([SuspendAware] tells).
func System() Clock { return system }

var (
	system       = &timed{Source: systemSource{}}
	systemAlarms = &timed{Source: systemSource{}, alarms: true}
)

// SuspendAware reports whether [System] goes on while the machine sleeps. Where it does not, a holder that slept
// believes for the length of that sleep too long that it holds a lock.
func SuspendAware() bool { return suspendAware }

type systemSource struct{}

func (systemSource) Now() Instant    { return systemNow() }
func (systemSource) Wall() time.Time { return time.Now() }
