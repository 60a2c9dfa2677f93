//go:build !linux && !darwin

package clock

import "time"

// processStart is the origin on platforms with nothing better than the monotonic clock of package
// time.
var processStart = time.Now()

func runtimeNow() Instant { return Instant(time.Since(processStart)) }
