//go:build unix && !linux

package run

// groupDead does not know: there is no common way to ask. A zombie counts as alive until its parent
// or init collects it.
func groupDead(int) bool { return false }

// groupStill believes that who was sent SIGSTOP stops.
func groupStill(int) bool { return true }

// adoptOrphans does nothing: there is no common way to it.
func adoptOrphans(bool) {}
