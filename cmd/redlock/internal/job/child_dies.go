//go:build linux || freebsd

package job

import "syscall"

// ChildAttributes puts the command into a process group of its own, and makes the kernel kill it
// when we are killed. That reaches only the process itself: its descendants live on.
func ChildAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
