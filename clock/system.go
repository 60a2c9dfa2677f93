package clock

import "time"

// System returns the clock of this machine. It cannot be set. It keeps running while the machine
// sleeps if the platform has such a clock ([SuspendAware] reports whether it does).
func System() Clock { return system }

var (
	system       = &timed{Source: systemSource{}}
	systemAlarms = &timed{Source: systemSource{}, alarms: true}
)

// SuspendAware reports whether [System] keeps running while the machine sleeps. If it does not, a
// holder that slept trusts its lock too long, by as long as it slept.
func SuspendAware() bool { return suspendAware }

type systemSource struct{}

func (systemSource) Now() Instant    { return systemNow() }
func (systemSource) Wall() time.Time { return time.Now() }
