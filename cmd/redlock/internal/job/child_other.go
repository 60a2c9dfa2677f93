//go:build !unix

package job

import (
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
)

// child is a process. Without process groups and signals we can only end the process; its
// descendants live on.
type child struct {
	process *os.Process
	changes chan childEvent
}

func startChild(path string, argv, env []string, _ bool) (*child, error) {
	process, err := os.StartProcess(path, argv, &os.ProcAttr{Env: env, Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
	if err != nil {
		return nil, err
	}
	c := &child{process: process, changes: make(chan childEvent)}
	go c.wait() // ends when the command has ended and its exit was received
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

// signal ends the process for the signals that mean its end. The console has delivered an interrupt
// itself.
func (c *child) signal(s syscall.Signal) error {
	if s != syscall.SIGTERM && s != syscall.SIGKILL {
		return nil
	}
	if err := c.process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

func (*child) gone() bool            { return true }
func (*child) sweep()                {}
func (*child) left() string          { return "" }
func (*child) ending() time.Duration { return 0 }
