//go:build !unix

package run

// play does nothing: redlock is tested as a process where there are signals.
func play(string, []string) int { return 1 }
