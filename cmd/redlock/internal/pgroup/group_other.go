//go:build unix && !linux

package pgroup

// Dead does not know: there is no portable way to ask. A zombie counts as alive until its
// parent or init reaps it.
func Dead(int) bool { return false }

// Parent does not know.
func Parent(int) int { return 0 }

// Still assumes that a process that was sent SIGSTOP stops.
func Still(int) bool { return true }

// AdoptOrphans does nothing: there is no portable way.
func AdoptOrphans(bool) {}
