package run

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
)

// heldLock is what the supervisor asks of a lock.
type heldLock interface {
	Remaining() time.Duration
	Err() error
	Done() <-chan struct{}
}

// command is a process group that was started.
type command interface {
	// events returns what happens to the process that was started; its end is the last.
	events() <-chan childEvent
	// signal sends a signal to all of the group. That nobody is left to take it is no error.
	signal(s syscall.Signal) error
	// gone reports whether nobody is left in the group.
	gone() bool
}

// childEvent is a change of state of a command.
type childEvent struct {
	exited  bool
	status  int            // as a shell tells it, once exited
	stopped syscall.Signal // by which signal, unless exited
}

// supervisor is with a command from its start to its end. One goroutine runs it.
//
// Everything that may wait for somebody else is kept from it: its messages go to an outbox.
type supervisor struct {
	lock     heldLock
	command  command
	grace    grace
	clock    clock.Clock
	signals  <-chan os.Signal
	messages messages
	job      jobControl
	holdEnds clock.Instant // by --max-hold; 0 for no limit
	killRest bool          // end what the command leaves running

	timer *clock.Timer
	lost  bool  // the command was told to end for the lock: that is not taken back
	dead  bool  // SIGKILL was sent, for the same sake
	rest  *rest // what the command has left running; nil while it runs itself
}

const (
	goneBound = 100 * time.Millisecond // for the kernel to end what was sent SIGKILL
	goneLook  = 2 * time.Millisecond
)

// supervise returns when all of the command has ended, with the exit status for it.
func (s *supervisor) supervise() int {
	wake := make(chan struct{}, 1)
	// With an alarm: a command whose lock ended while the machine slept is not to run on for a nap.
	s.timer = clock.WithAlarms(s.clock).AfterFunc(time.Hour, func() { // look sets the time
		select {
		case wake <- struct{}{}:
		default: // a look is due already
		}
	})
	defer s.timer.Stop()
	defer s.job.end()
	defer func() { s.rest.end() }()
	s.look()
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
		case <-done: // the validity has ended, or a quorum of masters says that the lock is not ours
			done = nil
			s.look()
		case <-wake:
			s.look()
		case <-s.rest.looks():
			if s.lookAtRest() {
				return s.over(s.rest.status)
			}
		}
		if s.rest != nil && s.dead {
			s.awaitGone()
			return cli.ExitLost
		}
	}
}

// look reads what is left of the lock, does what that asks for, and sets the time of the next look.
func (s *supervisor) look() {
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

// lose tells the command to end, and then the person why.
func (s *supervisor) lose(sig syscall.Signal, left time.Duration) {
	s.lost = true
	s.send(sig)
	if sig != syscall.SIGKILL {
		s.job.wake() // a process that is stopped cannot end itself
	}
	s.messages.say("lost", "lock %q %s; %s gets %s", s.messages.name, s.why(left), s.whom(), s.signalText(sig, left))
}

func (s *supervisor) whom() string {
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
		return "is lost: " + strings.TrimPrefix(strings.TrimPrefix(err.Error(), "redlock: "), "lock lost: ")
	}
}

func (s *supervisor) signalText(sig syscall.Signal, left time.Duration) string {
	if sig == syscall.SIGKILL {
		return "SIGKILL"
	}
	return fmt.Sprintf("SIGTERM now and SIGKILL in %v", (left - s.grace.margin).Round(time.Millisecond))
}

// leaves is called when the command itself has ended, and reports whether the lock is still to be
// held for what it has left running.
func (s *supervisor) leaves(status int) bool {
	if s.lost || s.lock.Remaining() <= 0 || s.command.gone() {
		return false
	}
	s.leaveRest(status)
	return true
}

// over returns the exit status of a command that ended with a status of its own. That it is this
// one takes a lock that is held to this moment: a redlock that was stopped past the validity may
// find the end of both.
func (s *supervisor) over(status int) int {
	if left := s.lock.Remaining(); !s.lost && left <= 0 {
		s.lost = true
		s.messages.say("lost", "lock %q %s, before the command had ended", s.messages.name, s.why(left))
	}
	if !s.lost {
		return status
	}
	if s.rest == nil {
		// The process that we started had its time; what is left of its group has no more.
		s.send(syscall.SIGKILL)
		s.awaitGone()
	}
	return cli.ExitLost
}

// send sends a signal to the command's group.
func (s *supervisor) send(sig syscall.Signal) {
	if err := s.command.signal(sig); err != nil {
		s.messages.say("not-signalled", "cannot send %v to the command: %v", sig, err)
	}
}

// forward passes on a signal that was sent to us.
func (s *supervisor) forward(sig os.Signal) {
	number, ok := sig.(syscall.Signal)
	if !ok || s.job.takes(number, s.look) {
		return
	}
	s.send(number)
	if s.rest != nil && endsRest(number) {
		s.endRest(number)
	}
}

// awaitGone waits until the kernel has ended a group that was sent SIGKILL, so that its lock is not
// released before. What hangs in the kernel does not end: hence the bound.
func (s *supervisor) awaitGone() {
	for waited := time.Duration(0); waited < goneBound && !s.command.gone(); waited += goneLook {
		clock.Sleep(context.Background(), s.clock, goneLook)
	}
}
