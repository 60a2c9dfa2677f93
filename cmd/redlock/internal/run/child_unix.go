//go:build unix

package run

import (
	"context"
	"errors"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
)

// child is a process in a group of its own, with our stdin, stdout and stderr.
//
// Signals go to its group, by number. The number is safe: while the process has not been waited
// for, nobody else gets it, and while anyone is left in the group, nobody else gets that one.
// Between the end of the last and the moment when we notice (restLongest, or as long as we are
// stopped) neither holds; but the kernel hands out numbers in turn, and this one comes last.
type child struct {
	pid     int
	changes chan childEvent
	looks   int // of gone
}

// startChild starts a command. It is started and waited for on a thread of its own: where the kernel ends a child with its parent,
// it takes the thread for the parent, and the runtime ends threads as it likes.
func startChild(path string, argv, env []string) (*child, error) {
	c := &child{changes: make(chan childEvent)}
	started := make(chan error)
	go func() { // ends when the command has, and its end has been taken
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		process, err := os.StartProcess(path, argv, &os.ProcAttr{
			Env: env, Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}, Sys: childAttributes(),
		})
		if err == nil {
			c.pid = process.Pid
			err = process.Release() // we wait by number
		}
		started <- err
		if err == nil {
			c.wait()
		}
	}()
	return c, <-started
}

// wait reports all that happens to the process until its end. Unlike os.Process.Wait it hears of
// stops. It collects all children, then and later: to the first process of a container come those
// whose parents have ended, and a zombie that nobody collects counts as a member of its group. We
// have no children but the command, these, and what we got from who called exec.
func (c *child) wait() {
	for ended := false; ; {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WUNTRACED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil: // no children are left, and so no descendants that could become ours
			if !ended { // it cannot be: nobody else waits for it
				c.changes <- childEvent{exited: true, status: cli.ExitFailed}
			}
			return
		case ended || pid != c.pid: // a number may come again
		case status.Stopped():
			c.changes <- childEvent{stopped: status.StopSignal()}
		case status.Signaled():
			ended = true
			c.changes <- childEvent{exited: true, status: cli.ExitSignal + int(status.Signal())}
		case status.Exited():
			ended = true
			c.changes <- childEvent{exited: true, status: status.ExitStatus()}
		}
	}
}

func (c *child) events() <-chan childEvent { return c.changes }

func (c *child) signal(s syscall.Signal) error {
	if err := syscall.Kill(-c.pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

// zombieLook is how many looks of gone there are for one that asks about zombies, which takes
// longer: every process is looked at.
const zombieLook = 16

func (c *child) gone() bool {
	if errors.Is(syscall.Kill(-c.pid, 0), syscall.ESRCH) {
		return true
	}
	c.looks++
	return c.looks%zombieLook == 1 && groupDead(c.pid)
}

const (
	freezeBound    = 2 * time.Second // a loaded machine takes that long to let everyone notice a SIGSTOP
	freezeShortest = time.Millisecond
	freezeLongest  = 50 * time.Millisecond
)

// freeze stops all of the group, whatever signals it ignores, and reports whether it stands still.
//
// SIGSTOP comes to all who are in the group at that moment, and on Linux nobody gets away from it
// by a fork: one that is under way is undone and done again when the parent goes on. What is left
// is the time until each has noticed, in which none gets far, and those whom we may not signal.
func (c *child) freeze() bool {
	clk := clock.System()
	pause := clock.Backoff{Shortest: freezeShortest, Longest: freezeLongest}
	for until := clk.Now().Add(freezeBound); clk.Now() < until; clock.Sleep(context.Background(), clk, pause.Next()) {
		_ = c.signal(syscall.SIGSTOP) //nolint:errcheck // those who did not get it do not stand still
		if groupStill(c.pid) {
			return true
		}
	}
	return false
}
