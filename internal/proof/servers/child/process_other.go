//go:build !linux

package child

import (
	"errors"
	"os/exec"
)

// startCommand starts a child. The child outlives this process if this process is killed: only
// Linux can do better.
func startCommand(command *exec.Cmd) error { return command.Start() }

func (p *Process) awaitEnd() {}

func (p *Process) suspend() error { return errors.ErrUnsupported }

func (p *Process) resume() error { return errors.ErrUnsupported }
