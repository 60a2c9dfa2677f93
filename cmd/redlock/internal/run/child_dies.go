//go:build linux || freebsd

package run

import "syscall"

// childAttributes puts the command into a group of its own, and makes the kernel end it when we are killed. Only the process
// itself: what it has started lives on.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
