//go:build !unix

package tasks

import (
	"os"
	"syscall"
)

// signalGroup ends a process.
func signalGroup(process *os.Process, _ syscall.Signal) {
	_ = process.Kill() //nolint:errcheck // it has ended
}
