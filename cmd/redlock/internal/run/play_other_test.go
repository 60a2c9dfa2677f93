//go:build !unix

package run

// play does nothing: redlock is tested as a process only where signals exist.
func play(string, []string) int { return 1 }
