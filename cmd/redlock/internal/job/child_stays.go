//go:build unix && !linux && !freebsd

package job

import "syscall"

// childAttributes puts the command into a process group of its own. The kernel offers no way to
// kill it when we are killed.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
