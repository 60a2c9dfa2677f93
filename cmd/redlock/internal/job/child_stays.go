//go:build unix && !linux && !freebsd

package job

import "syscall"

// ChildAttributes puts the command into a process group of its own. The kernel offers no way to
// kill it when we are killed.
func ChildAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
