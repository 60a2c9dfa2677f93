//go:build !unix

package run

import (
	"errors"
	"os"
	"syscall"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
)

// child is a process. There are no groups and no signals: it can be ended, and what it has started lives on.
type child struct {
	process *os.Process
	changes chan childEvent
}

func startChild(path string, argv, env []string) (*child, error) {
	process, err := os.StartProcess(path, argv, &os.ProcAttr{Env: env, Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
	if err != nil {
		return nil, err
	}
	c := &child{process: process, changes: make(chan childEvent)}
	go c.wait() // ends when the command has, and its end has been taken
	return c, nil
}

func (c *child) wait() {
	state, err := c.process.Wait()
	status := cli.ExitFailed
	if err == nil {
		status = state.ExitCode()
	}
	c.changes <- childEvent{exited: true, status: status}
}

func (c *child) events() <-chan childEvent { return c.changes }

// signal ends the process for signals that mean its end. The console has told it of an interrupt itself.
func (c *child) signal(s syscall.Signal) error {
	if s != syscall.SIGTERM && s != syscall.SIGKILL {
		return nil
	}
	if err := c.process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

func (c *child) gone() bool { return true }
