//go:build unix

package tasks

import (
	"os"
	"syscall"
)

// signalGroup signals a process that leads a group of its own, and all in that group. If nothing is
// left of it, nothing happens: the kernel hands out numbers in turn, and this one comes last.
func signalGroup(process *os.Process, s syscall.Signal) {
	_ = syscall.Kill(-process.Pid, s) //nolint:errcheck // it has ended, or belongs to somebody else
}
