//go:build !linux

package redistest

import (
	"errors"
	"os/exec"
)

// startCommand starts a child. It outlives this process when this process is killed: only Linux offers more.
func startCommand(command *exec.Cmd) error { return command.Start() }

func (p *process) suspend() error { return errors.ErrUnsupported }

func (p *process) resume() error { return errors.ErrUnsupported }
