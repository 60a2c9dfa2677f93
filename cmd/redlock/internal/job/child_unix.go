//go:build unix

package job

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/pgroup"
)

// child is a process in a group of its own, with our stdin, stdout and stderr, and everything that
// it has started, in whatever group or session; with detach, only what is in its group (group.go).
//
// Signals go to its group, by number. The number is safe: no other process gets it before this one
// has been waited for, and no other group while this one has members. Neither holds between the end
// of the last member and the moment we notice (restLongest, or as long as we are stopped). But the
// kernel hands out numbers in turn, and this one comes last.
type child struct {
	pid     int
	detach  bool // what leaves the group is on its own
	changes chan childEvent
	polls   int // calls of groupGone
	tree    tree
}

// children are the commands that have not ended, by their numbers.
var children struct {
	mu      sync.Mutex // guards the fields below; held while a command is started
	byPID   map[int]*child
	waiting int // how many goroutines reap
}

// startChild starts a command. A dedicated thread starts it and waits for it: a kernel that kills a
// child with its parent takes the thread for the parent, and the runtime ends threads as it likes.
func startChild(path string, argv, env []string, detach bool) (*child, error) {
	c := &child{detach: detach, changes: make(chan childEvent)}
	started := make(chan error)
	go func() { // ends when we have no children left, and the exit of each command was received
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		err := c.start(path, argv, env)
		started <- err
		if err == nil {
			reap()
		}
	}()
	return c, <-started
}

// start starts the command and enters it among the children, before anyone can look there.
func (c *child) start(path string, argv, env []string) error {
	children.mu.Lock()
	defer children.mu.Unlock()
	if children.byPID != nil {
		signal.Reset(syscall.SIGTTOU) // ignored since the first command; not inherited
	}
	attributes := &os.ProcAttr{Env: env, Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}, Sys: ChildAttributes()}
	started := func() {}
	if !c.detach {
		started = c.tree.plant(attributes)
	}
	process, err := os.StartProcess(path, argv, attributes)
	started()
	if err != nil {
		return err
	}
	c.pid = process.Pid
	if children.byPID == nil {
		children.byPID = make(map[int]*child)
	}
	children.byPID[c.pid] = c
	children.waiting++
	return process.Release() // we wait by number
}

// reap reports every change of the commands until no child is left, including stops, which
// os.Process.Wait does not report. It reaps all children, also after the end of its command:
// orphans are reparented to the first process of a container, and a zombie that nobody reaps counts
// as a member of its group. Our only children are the commands, such orphans, and children we
// inherited from whoever called exec.
//
// While an orphan of an earlier command lives, two goroutines reap. So each reports what belongs to
// the other.
func reap() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WUNTRACED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil: // no children are left, so no descendant can become ours
			for _, c := range abandoned() {
				c.changes <- childEvent{exited: true, status: cli.ExitFailed}
			}
			return
		case status.Stopped():
			if c := childOf(pid, false); c != nil {
				c.changes <- childEvent{stopped: status.StopSignal()}
			}
		case status.Signaled():
			if c := childOf(pid, true); c != nil {
				c.changes <- childEvent{exited: true, status: cli.ExitSignal + int(status.Signal())}
			}
		case status.Exited():
			if c := childOf(pid, true); c != nil {
				c.changes <- childEvent{exited: true, status: status.ExitStatus()}
			}
		}
	}
}

// childOf returns the command with that number; nil if it is no command, or has ended: a number may
// be reused.
func childOf(pid int, ended bool) *child {
	children.mu.Lock()
	defer children.mu.Unlock()
	c := children.byPID[pid]
	if ended {
		delete(children.byPID, pid)
	}
	return c
}

// abandoned is called by a goroutine that stops reaping. The last one returns the commands whose
// exits nobody has seen. That is impossible: nobody else waits for them.
func abandoned() (all []*child) {
	children.mu.Lock()
	defer children.mu.Unlock()
	if children.waiting--; children.waiting > 0 {
		return nil // another one may be about to report them
	}
	for pid, c := range children.byPID {
		all = append(all, c)
		delete(children.byPID, pid)
	}
	return all
}

func (c *child) events() <-chan childEvent { return c.changes }

// ended reports whether the process itself was waited for: its number may be somebody else's, if
// its group has no members either.
func (c *child) ended() bool {
	children.mu.Lock()
	defer children.mu.Unlock()
	return children.byPID[c.pid] != c
}

func (c *child) signalGroup(s syscall.Signal) error {
	if err := syscall.Kill(-c.pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

// zombieInterval is how many calls of groupGone there are per check for zombies, which is slower:
// it reads every process.
const zombieInterval = 16

func (c *child) groupGone() bool {
	if errors.Is(syscall.Kill(-c.pid, 0), syscall.ESRCH) {
		return true
	}
	c.polls++
	return c.polls%zombieInterval == 1 && pgroup.Dead(c.pid)
}

const (
	// On a loaded machine it takes that long until every process notices SIGSTOP.
	freezeBound    = 2 * time.Second
	freezeShortest = time.Millisecond
	freezeLongest  = 50 * time.Millisecond
)

// freeze stops everything, whatever signals it ignores, and reports whether it stands still.
//
// SIGSTOP reaches every member of the group at that moment. On Linux no member escapes by a fork: a
// fork in progress is undone, and redone when the parent continues. What remains is the time until
// each member notices, in which none gets far, and members that we may not signal.
func (c *child) freeze() bool {
	clk := clock.System()
	pause := clock.Backoff{Shortest: freezeShortest, Longest: freezeLongest}
	for until := clk.Now().Add(freezeBound); clk.Now() < until; clock.Sleep(context.Background(), clk, pause.Next()) {
		_ = c.signal(syscall.SIGSTOP) //nolint:errcheck // members that did not get it do not stand still
		if c.still() {
			return true
		}
	}
	return false
}
