//go:build unix && !linux

package run

// groupDead does not know: there is no portable way to ask. A zombie counts as alive until its
// parent or init reaps it.
func groupDead(int) bool { return false }

// groupStill assumes that a process that was sent SIGSTOP stops.
func groupStill(int) bool { return true }

// adoptOrphans does nothing: there is no portable way.
func adoptOrphans(bool) {}
