//go:build unix

package job

import (
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/cmd/redlock/internal/pgroup"
)

// jobControl makes a command in a process group of its own, and us, one job for the shell that
// started us.
//
// The command begins in the background of its terminal. When it needs the terminal, to read from it
// or to configure it, the kernel stops it; if we are in the foreground, the command takes our place
// and continues. So a pipeline around us keeps the terminal until the command asks for it. Keyboard
// signals (^C, ^\, ^Z) reach the command either way: its group gets them, or we do and pass them
// on.
//
// When the keyboard stops a command, we stop too, with all of our group, so that the shell notices.
// Nobody renews or watches the lock then. So we first stop the whole group of the command,
// including members that ignore ^Z. It stays stopped until we are continued and have checked the
// lock: if the lock was lost meanwhile, the group is killed as it stands.
//
// One goroutine uses it: the supervisor's, which is the main thread (init).
type jobControl struct {
	command    *child        // nil in tests without a process
	messages   Messages      // for a group that cannot be stopped
	tty        *os.File      // the controlling terminal, once the command has asked for it
	lent       bool          // the command has the foreground, or had it when it was stopped
	paused     bool          // the command is stopped until we are continued
	passedOn   clock.Instant // when we passed SIGTSTP on; 0 if not since the last stop
	told       bool          // we said that the group cannot be stopped
	leaderless bool          // the started process has ended: nobody reports stops any more
}

// The kernel delivers a SIGSTOP that a process sends to itself to the main thread. If the main
// thread sends it, it stops before it does anything else. Another thread might still continue the
// command for an earlier SIGCONT before it stops.
func init() { runtime.LockOSThread() }

// newJobControl is called when the command has started, so that the command does not inherit what
// is ignored from here on.
func newJobControl(command *child, messages Messages) jobControl {
	// A message to a terminal that belongs to the command must not stop us.
	signal.Ignore(syscall.SIGTTOU)
	return jobControl{command: command, messages: messages}
}

// stopped is called when a signal has stopped the command. A SIGSTOP from outside is meant for the
// command alone, and the lock goes on being renewed. But a command may also stop itself with
// SIGSTOP in response to ^Z.
func (j *jobControl) stopped(by syscall.Signal) {
	with := syscall.SIGSTOP
	switch {
	case by == syscall.SIGTTIN || by == syscall.SIGTTOU:
		if j.lend() {
			j.resume()
			return
		}
		if !orphaned() {
			with = syscall.SIGTTIN // so that a redlock around us gives us the terminal
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
		j.suspend(with)
	}
}

// orphaned reports whether nobody looks after our group: then the kernel does not let a terminal
// stop it. Who does is the parent of one of its members, in another group of the session.
func orphaned() bool {
	session, err := unix.Getsid(0)
	for parent := os.Getppid(); err == nil && parent > 0; parent = pgroup.Parent(parent) {
		group, failed := unix.Getpgid(parent)
		if err = failed; group != ownGroup() {
			theirs, failed := unix.Getsid(parent)
			return failed != nil || theirs != session
		}
	}
	return true
}

// stopBound is how long a command may take to stop itself after ^Z.
const stopBound = 5 * time.Second

// stopsItself reports whether the command most likely sent the SIGSTOP that stopped it to itself,
// in response to the keyboard: it has the terminal, or we have just passed ^Z on. Three kinds stop
// like that: a redlock that is the command, a shell (suspend), and programs that tidy up the screen
// first.
func (j *jobControl) stopsItself() bool {
	if j.passedOn != 0 && clock.System().Now().Sub(j.passedOn) < stopBound {
		return true
	}
	foreground, ok := j.foreground()
	return ok && foreground == j.command.pid
}

// suspend stops the command, and then our group with a signal. It returns when we have been
// continued.
//
// If the started process is killed meanwhile, the kernel finds a stopped group without a parent
// that could continue it, and continues it. So we become that parent.
func (j *jobControl) suspend(with syscall.Signal) {
	j.passedOn = 0
	pgroup.AdoptOrphans(true)
	if !j.command.freeze() {
		if !j.told { // the terminal may stop it again and again
			j.told = true
			j.messages.Warn("not-stopped", "the job is not stopped: a process of the command does not stop, and lock %q must be renewed", j.messages.Name)
		}
		j.wake()
		return
	}
	j.takeBack()
	j.paused = true
	_ = syscall.Kill(0, with) //nolint:errcheck // our own group exists and may be signalled
}

// leaderEnded is called when the started process has ended while others of its group run. They are
// in the background of the terminal from now on, so its keys reach us.
func (j *jobControl) leaderEnded() {
	j.leaderless = true
	j.takeBack()
	j.lent = false
}

// canStop reports whether a shell with job control started us, and so could continue us. Anything
// else starts us in the group of the session leader, where the kernel ignores ^Z as well. (Once
// SIGTSTP was subscribed to, the runtime does not give it its default action back, which would take
// care of this.)
func (j *jobControl) canStop() bool {
	session, err := unix.Getsid(0)
	_, terminal := j.foreground()
	return err == nil && terminal && session != ownGroup()
}

// Suspend stops us, for a ^Z that came while no command runs, if a shell with job control could
// continue us.
func Suspend() {
	j := jobControl{}
	defer j.end()
	if j.canStop() {
		_ = syscall.Kill(0, syscall.SIGSTOP) //nolint:errcheck // our own group exists and may be signalled
	}
}

// takes reports whether a signal that was sent to us is meant for us, and handles it. It calls
// check before the command goes on.
func (j *jobControl) takes(s syscall.Signal, check func()) bool {
	switch {
	case s == syscall.SIGTSTP:
		if !j.canStop() {
			return true
		}
		if j.leaderless {
			j.suspend(syscall.SIGSTOP)
			return true
		}
		j.passedOn = clock.System().Now()
		return false
	case s == syscall.SIGCONT:
		check() // first: we may have been stopped past the validity
		if j.paused && j.lent {
			j.lend() // if the shell put us into the foreground
		}
		j.wake()
		return true
	default:
		return false
	}
}

// wake continues a stopped command.
func (j *jobControl) wake() {
	j.paused = false
	j.resume()
	pgroup.AdoptOrphans(j.command != nil && !j.command.detach)
}

func (j *jobControl) resume() {
	if j.command != nil {
		_ = j.command.signal(syscall.SIGCONT) //nolint:errcheck // a process that may not be signalled is reported when it matters
	}
}

// lend gives the foreground to the command if we have it, and reports whether the command has it.
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

// takeBack takes the foreground back from the command.
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

// foreground returns the group that owns the terminal; false if there is no terminal.
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

// ownGroup returns our own process group.
func ownGroup() int {
	group, _ := unix.Getpgid(0) //nolint:errcheck // it does not fail for the caller itself
	return group
}

func (j *jobControl) setForeground(group int) bool {
	return unix.IoctlSetPointerInt(int(j.tty.Fd()), unix.TIOCSPGRP, group) == nil
}

// EndingSignals end a wait for the lock, and are passed on to the command once it runs.
var EndingSignals = []os.Signal{
	syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
}

// RunningSignals matter only once the command runs.
var RunningSignals = []os.Signal{syscall.SIGWINCH, syscall.SIGTSTP, syscall.SIGCONT}

// IsSuspend reports whether a signal asks us to stop.
func IsSuspend(s os.Signal) bool { return s == syscall.SIGTSTP }

// Notify subscribes to signals, except those that our parent wants ignored (nohup).
//
// Each has a channel with room for one. So several of one kind may count as one, as they do for the
// kernel, and a flood of one kind (a window that is resized) displaces no other.
func Notify(signals chan<- os.Signal, wanted []os.Signal) {
	for _, s := range wanted {
		if signal.Ignored(s) {
			continue
		}
		pending := make(chan os.Signal, 1)
		signal.Notify(pending, s)
		go func() { // ends with the process
			for s := range pending {
				signals <- s
			}
		}()
	}
}

// IgnorePipes keeps us alive when we write to a pipe without a reader. The command does not inherit
// this, as it would inherit an ignored signal.
func IgnorePipes() {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // nobody receives
}
