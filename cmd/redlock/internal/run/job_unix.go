//go:build unix

package run

import (
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/redquorum/redquorum/clock"
)

// jobControl makes a command in a process group of its own, and us, one job for the shell that started us.
//
// The command begins in the background of its terminal. When it wants the terminal, to read from it or to set it, the kernel stops it;
// if we are in the foreground, it gets our place and goes on. So a pipeline around us keeps the terminal for as long as the command
// does not ask for it. What the keyboard sends (^C, ^\, ^Z) comes to the command either way: to its group, or to us, who pass it on.
//
// A command that the keyboard stopped takes us, and all of our group, along, so that the shell
// notices. Nobody renews the lock then or watches it. So all of the command's group is stopped
// before, also those who ignore ^Z, and stays so until we are continued and have looked at the
// lock: if that was lost meanwhile, the group is killed as it stands.
//
// One goroutine uses it: the supervisor's, which is the main thread (init).
type jobControl struct {
	command    *child        // nil in tests without a process
	messages   messages      // for a group that cannot be stopped
	tty        *os.File      // the controlling terminal, once the command has wanted it
	lent       bool          // the command has, or had when it was stopped, the foreground
	paused     bool          // the command is stopped until we are continued
	passedOn   clock.Instant // when SIGTSTP was; 0 if not since the last stop
	told       bool          // that the group cannot be stopped
	leaderless bool          // the process that was started has ended: nobody tells us of stops any more
}

// The kernel gives a SIGSTOP that a process sends to itself to the main thread. If that is the one
// that sends it, it stops before it does anything else. From another thread we might yet continue
// the command for an earlier SIGCONT, and then stop.
func init() { runtime.LockOSThread() }

// newJobControl is called when the command has been started: what is ignored now, it does not inherit.
func newJobControl(command *child, messages messages) jobControl {
	signal.Ignore(syscall.SIGTTOU) // a message to a terminal that is the command's must not stop us
	return jobControl{command: command, messages: messages}
}

// stopped is called when a signal has stopped the command. Whoever sends SIGSTOP to a command means
// that alone, and the lock goes on to be renewed; but one that hears of ^Z may stop itself like
// that.
func (j *jobControl) stopped(by syscall.Signal) {
	switch {
	case by == syscall.SIGTTIN || by == syscall.SIGTTOU:
		if j.lend() {
			j.resume()
			return
		}
	case by == syscall.SIGTSTP || by == syscall.SIGSTOP && j.stopsItself():
		if !j.canStop() {
			j.resume() // as if the key had not been pressed
			return
		}
	default:
		return
	}
	if j.canStop() {
		j.suspend()
	}
}

// stopBound is how long a command may take to stop itself for ^Z.
const stopBound = 5 * time.Second

// stopsItself reports whether a SIGSTOP that has stopped the command is most likely its own, sent
// for the keyboard: it has the terminal, or we have just passed ^Z on to it. A redlock run as the
// command stops like that, a shell (suspend), and those who tidy up the screen before they stop.
func (j *jobControl) stopsItself() bool {
	if j.passedOn != 0 && clock.System().Now().Sub(j.passedOn) < stopBound {
		return true
	}
	foreground, ok := j.foreground()
	return ok && foreground == j.command.pid
}

// suspend stops the command's group and then ours. It returns when we have been continued.
//
// If the process that was started is killed meanwhile, the kernel finds a stopped group without a
// parent that could continue it, and continues it. So we are that parent.
func (j *jobControl) suspend() {
	j.passedOn = 0
	adoptOrphans(true)
	if !j.command.freeze() {
		if !j.told { // it may be stopped by the terminal again and again
			j.told = true
			j.messages.say("not-stopped", "lock %q must be renewed: a process of the command does not stop, and so nothing does", j.messages.name)
		}
		j.wake()
		return
	}
	j.takeBack()
	j.paused = true
	_ = syscall.Kill(0, syscall.SIGSTOP) //nolint:errcheck // our own group: it is there, and allowed
}

// leaderEnded is called when the process that was started has ended, and others of its group have
// not. Those are in the background of the terminal from now on, so that its keys come to us.
func (j *jobControl) leaderEnded() {
	j.leaderless = true
	j.takeBack()
	j.lent = false
}

// canStop reports whether a shell with job control has started us, that could continue us. Others start us in the group of the session's
// leader, where the kernel takes no notice of ^Z either. (The runtime gives SIGTSTP no default action once it was asked for,
// or that would see to it.)
func (j *jobControl) canStop() bool {
	session, err := unix.Getsid(0)
	_, terminal := j.foreground()
	return err == nil && terminal && session != ownGroup()
}

// takes reports whether a signal that was sent to us is for us, and does what it asks for. Look is called before a command goes on.
func (j *jobControl) takes(s syscall.Signal, look func()) bool {
	switch {
	case s == syscall.SIGTSTP:
		if !j.canStop() {
			return true
		}
		if j.leaderless {
			j.suspend()
			return true
		}
		j.passedOn = clock.System().Now()
		return false
	case s == syscall.SIGCONT:
		look() // first: we may have been stopped past the validity
		if j.paused && j.lent {
			j.lend() // where the shell put us into the foreground
		}
		j.wake()
		return true
	default:
		return false
	}
}

// wake makes a stopped command go on.
func (j *jobControl) wake() {
	j.paused = false
	j.resume()
	adoptOrphans(false)
}

func (j *jobControl) resume() {
	if j.command != nil {
		_ = j.command.signal(syscall.SIGCONT) //nolint:errcheck // who may not be signalled is told of when it matters
	}
}

// lend gives our place in the foreground to the command, and reports whether it has it.
func (j *jobControl) lend() bool {
	foreground, ok := j.foreground()
	switch {
	case !ok:
		return false
	case foreground == ownGroup():
		j.lent = j.setForeground(j.command.pid)
		return j.lent
	default:
		return foreground == j.command.pid
	}
}

// takeBack takes the foreground from the command, where it has it.
func (j *jobControl) takeBack() {
	if !j.lent {
		return
	}
	if foreground, ok := j.foreground(); ok && foreground == j.command.pid {
		j.setForeground(ownGroup())
	}
}

// end is called when the command has ended.
func (j *jobControl) end() {
	j.takeBack()
	if j.tty != nil {
		_ = j.tty.Close() //nolint:errcheck // nothing was written
	}
}

// foreground returns the group that the terminal belongs to; false where there is no terminal.
func (j *jobControl) foreground() (int, bool) {
	if j.tty == nil {
		tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
		if err != nil {
			return 0, false
		}
		j.tty = tty
	}
	group, err := unix.IoctlGetInt(int(j.tty.Fd()), unix.TIOCGPGRP)
	return group, err == nil
}

// ownGroup returns the process group that we are in.
func ownGroup() int {
	group, _ := unix.Getpgid(0) //nolint:errcheck // of ourselves it is known
	return group
}

func (j *jobControl) setForeground(group int) bool {
	return unix.IoctlSetPointerInt(int(j.tty.Fd()), unix.TIOCSPGRP, group) == nil
}
