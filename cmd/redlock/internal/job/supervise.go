package job

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/redlock"
)

// Lock is what a command runs under.
type Lock interface {
	Remaining() time.Duration
	Err() error
	Done() <-chan struct{}
}

// command is a process group that was started.
type command interface {
	// events returns what happens to the started process; its end comes last.
	events() <-chan childEvent
	// signal sends a signal to the whole group. It is no error if no process is left.
	signal(s syscall.Signal) error
	// gone reports whether no process is left in the group.
	gone() bool
}

// childEvent is a change of state of a command.
type childEvent struct {
	exited  bool
	status  int            // as a shell reports it, once exited
	stopped syscall.Signal // the signal that stopped it, unless exited
}

// supervisor watches over a command from its start to its end. One goroutine runs it.
//
// Nothing that could block on somebody else runs there: messages go to an outbox.
type supervisor struct {
	lock     Lock
	command  command
	grace    Grace
	clock    clock.Clock
	signals  <-chan os.Signal
	messages Messages
	job      jobControl
	holdEnds clock.Instant // set by --max-hold; 0: no limit
	killRest bool          // end what the command leaves running

	timer *clock.Timer
	asked os.Signal // the last signal that asked the command to end
	lost  bool      // the command was told to end because of the lock; there is no way back
	dead  bool      // SIGKILL was sent for the same reason
	rest  *rest     // what the command left running; nil while the command itself runs
}

const (
	goneBound = 100 * time.Millisecond // for the kernel to end what was sent SIGKILL
	gonePoll  = 2 * time.Millisecond
)

// supervise returns the exit status when the whole command has ended.
func (s *supervisor) supervise() int {
	wake := make(chan struct{}, 1)
	// With an alarm: if the lock ended while the machine slept, the command must not run on for a
	// nap.
	s.timer = clock.WithAlarms(s.clock).AfterFunc(time.Hour, func() { // check sets the time
		select {
		case wake <- struct{}{}:
		default: // a check is due already
		}
	})
	defer s.timer.Stop()
	defer s.job.end()
	defer func() { s.rest.end() }()
	s.check()
	done := s.lock.Done()
	for {
		select {
		case e := <-s.command.events():
			if !e.exited {
				s.job.stopped(e.stopped)
			} else if !s.leaves(e.status) {
				return s.over(e.status)
			}
		case sig := <-s.signals:
			s.forward(sig)
		case <-done: // the validity ended, or a quorum of masters says that the lock is not ours
			done = nil
			s.check()
		case <-wake:
			s.check()
		case <-s.rest.ticks():
			if s.checkRest() {
				return s.over(s.rest.status)
			}
		}
		if s.rest != nil && s.dead {
			s.awaitGone()
			return cli.ExitLost
		}
	}
}

// check reads how long the lock is still valid, does what that requires, and schedules the next
// check.
func (s *supervisor) check() {
	if s.dead {
		return
	}
	left := s.lock.Remaining()
	what, again := s.grace.next(left)
	switch what {
	case leave:
	case terminate:
		if !s.lost {
			s.lose(syscall.SIGTERM, left)
		}
	case kill:
		s.dead = true
		if !s.lost {
			s.lose(syscall.SIGKILL, left)
		} else {
			s.send(syscall.SIGKILL)
		}
		return
	}
	s.timer.Reset(again)
}

// lose tells the command to end, and then tells the user why.
func (s *supervisor) lose(sig syscall.Signal, left time.Duration) {
	s.lost = true
	s.send(sig)
	if sig != syscall.SIGKILL {
		s.job.wake() // a stopped process cannot end itself
	}
	s.messages.Warn("lost", "lock %q %s; %s gets %s", s.messages.Name, s.why(left), s.target(), s.signalText(sig, left))
}

func (s *supervisor) target() string {
	if s.rest != nil {
		return "what the command left running"
	}
	return "the command"
}

func (s *supervisor) why(left time.Duration) string {
	err := s.lock.Err()
	switch held := s.holdEnds != 0 && s.clock.Now().Add(left+s.grace.margin) >= s.holdEnds; {
	case held && left > 0:
		return fmt.Sprintf("ends in %v, after --max-hold", left.Round(time.Millisecond))
	case err == nil:
		return fmt.Sprintf("ends in %v and could not be renewed", left.Round(time.Millisecond))
	default:
		return "is lost: " + cli.Reason(err, redlock.ErrLost)
	}
}

func (s *supervisor) signalText(sig syscall.Signal, left time.Duration) string {
	if sig == syscall.SIGKILL {
		return "SIGKILL"
	}
	return fmt.Sprintf("SIGTERM now and SIGKILL in %v", (left - s.grace.margin).Round(time.Millisecond))
}

// leaves is called when the command itself has ended. It reports whether the lock must still be
// held because of what the command left running.
func (s *supervisor) leaves(status int) bool {
	if s.lost || s.lock.Remaining() <= 0 || s.command.gone() {
		return false
	}
	s.leaveRest(status)
	return true
}

// over returns the exit status of a command that has ended by itself. Its own status counts only if
// the lock is held to this moment: a redlock that was stopped past the validity may find that both
// have ended.
func (s *supervisor) over(status int) int {
	if left := s.lock.Remaining(); !s.lost && left <= 0 {
		s.lost = true
		s.messages.Warn("lost", "lock %q %s, before the command had ended", s.messages.Name, s.why(left))
	}
	if !s.lost {
		return status
	}
	if s.rest == nil {
		// The started process had its time; what is left of its group gets no more.
		s.send(syscall.SIGKILL)
		s.awaitGone()
	}
	return cli.ExitLost
}

// send sends a signal to the command's group.
func (s *supervisor) send(sig syscall.Signal) {
	if err := s.command.signal(sig); err != nil {
		s.messages.Warn("not-signalled", "cannot send %v to the command: %v", sig, err)
	}
}

// forward passes on a signal that was sent to us.
func (s *supervisor) forward(sig os.Signal) {
	number, ok := sig.(syscall.Signal)
	if !ok || s.job.takes(number, s.check) {
		return
	}
	s.send(number)
	if !endsRest(number) {
		return
	}
	s.asked = number
	if s.rest != nil {
		s.endRest(number)
	}
}

// awaitGone waits until the kernel has ended a group that was sent SIGKILL, so that the lock is not
// released earlier. A process that hangs in the kernel does not end: hence the bound.
func (s *supervisor) awaitGone() {
	for waited := time.Duration(0); waited < goneBound && !s.command.gone(); waited += gonePoll {
		clock.Sleep(context.Background(), s.clock, gonePoll)
	}
}
