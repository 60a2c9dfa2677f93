//go:build !unix

package job

import (
	"errors"
	"os"
	"os/signal"
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

// EndingSignals end a wait for the lock, and are passed on to the command once it runs.
var EndingSignals = []os.Signal{os.Interrupt, syscall.SIGTERM}

// RunningSignals matter only once the command runs: none.
var RunningSignals []os.Signal

// IsSuspend reports false: no signal stops a process.
func IsSuspend(os.Signal) bool { return false }

// Suspend does nothing.
func Suspend() {}

// Notify subscribes to signals. A channel with room for one is enough: repetitions mean nothing
// more.
func Notify(signals chan<- os.Signal, wanted []os.Signal) {
	for _, s := range wanted {
		pending := make(chan os.Signal, 1)
		signal.Notify(pending, s)
		go func() { // ends with the process
			for s := range pending {
				signals <- s
			}
		}()
	}
}

// IgnorePipes does nothing: writing to a pipe without a reader only returns an error.
func IgnorePipes() {}

// jobControl does nothing: there is no job control.
type jobControl struct{}

func newJobControl(*child, Messages) jobControl { return jobControl{} }

func (jobControl) stopped(syscall.Signal)            {}
func (jobControl) takes(syscall.Signal, func()) bool { return false }
func (jobControl) wake()                             {}
func (jobControl) leaderEnded()                      {}
func (jobControl) end()                              {}

// ChildAttributes returns nil: there are no process groups.
func ChildAttributes() *syscall.SysProcAttr { return nil }
