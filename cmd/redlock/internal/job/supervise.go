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

// command is a process that was started, and everything that it has started.
type command interface {
	// events returns what happens to the started process; its end comes last.
	events() <-chan childEvent
	// signal sends a signal to all of it that should get it. It is no error if nothing is left.
	signal(s syscall.Signal) error
	// sweep kills what has come since SIGKILL was sent.
	sweep()
	// gone reports whether nothing is left.
	gone() bool
	// left names what is left for people; it may be empty.
	left() string
	// ending estimates how long it takes to end everything that runs now.
	ending() time.Duration
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
	causes   func() string // see [Job]; nil for none
	left     func(int, string)

	began clock.Instant
	timer *clock.Timer
	cost  time.Duration // of ending the command, as last estimated
	asked os.Signal     // the last signal that asked the command to end
	lost  bool          // the command was told to end because of the lock; there is no way back
	dead  bool          // SIGKILL was sent for the same reason
	cut   bool          // it is lost because of --max-hold

	reason string // why it is lost

	rest *rest // what the command left running; nil while the command itself runs
}

const (
	goneBound = 5 * time.Second // for the kernel to end what was sent SIGKILL
	gonePoll  = 2 * time.Millisecond
	sweepLast = 100 * time.Millisecond // between two sweeps
	lookAgain = 250 * time.Millisecond // how old an estimate is at most when it matters
)

// supervise returns the exit status when the whole command has ended.
func (s *supervisor) supervise() int {
	s.began = s.clock.Now()
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
		s.command.sweep()
		s.timer.Reset(sweepLast)
		return
	}
	s.cost = min(s.command.ending(), s.grace.most)
	left := s.lock.Remaining()
	what, again := s.grace.next(left - s.cost)
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
		again = sweepLast
	}
	if again > lookAgain {
		again /= 2 // the command may have many more processes by then
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
	why, because := s.why(left), s.because()
	s.reason = why + because
	s.messages.Warn("lost", "lock %q %s; %s gets %s%s", s.messages.Name, why, s.target(), s.signalText(sig, left), because)
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
		s.cut = true
		return fmt.Sprintf("ends in %v, after --max-hold", left.Round(time.Millisecond))
	case err == nil:
		return fmt.Sprintf("ends in %v and could not be renewed", left.Round(time.Millisecond))
	default:
		return "is lost: " + cli.Reason(err, redlock.ErrLost)
	}
}

// because says why masters do not vote; it waits for none of them.
func (s *supervisor) because() string {
	if s.causes == nil {
		return ""
	}
	if text := s.causes(); text != "" {
		return "; no vote from " + text
	}
	return ""
}

func (s *supervisor) signalText(sig syscall.Signal, left time.Duration) string {
	if sig == syscall.SIGKILL {
		return "SIGKILL"
	}
	return fmt.Sprintf("SIGTERM now and SIGKILL in %v", (left - s.cost - s.grace.margin).Round(time.Millisecond))
}

// leaves is called when the command itself has ended. It reports whether the lock must still be
// held because of what the command left running.
func (s *supervisor) leaves(status int) bool {
	if s.dead || s.lock.Remaining() <= 0 || s.command.gone() {
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
		why, because := s.why(left), s.because()
		s.reason = why + because
		s.messages.Warn("lost", "lock %q %s, before the command had ended%s", s.messages.Name, why, because)
	}
	if !s.lost {
		return status
	}
	if s.rest == nil {
		// The time of all is over.
		s.send(syscall.SIGKILL)
		s.awaitGone()
	}
	return cli.ExitLost
}

// send sends a signal to the command.
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

// awaitGone waits until the kernel has ended what was sent SIGKILL, so that the lock is not
// released earlier. A process that hangs in the kernel, or that we may not signal, does not end. It
// is waited for as long as the lock is valid, and for goneBound.
func (s *supervisor) awaitGone() {
	pause := clock.Backoff{Shortest: gonePoll, Longest: sweepLast}
	began := s.clock.Now()
	sweep := began.Add(pause.Next())
	for !s.command.gone() {
		now := s.clock.Now()
		if now.Sub(began) >= goneBound && s.lock.Remaining() <= 0 {
			s.messages.Warn("not-ended", "a process of the command does not end, and runs on without lock %q", s.messages.Name)
			return
		}
		if now >= sweep {
			s.command.sweep()
			sweep = now.Add(pause.Next())
		}
		clock.Sleep(context.Background(), s.clock, gonePoll)
	}
}

// Grace is the time that a command gets to end before its lock does:
//
//	validity ───────▶ SIGTERM ── killAfter ──▶ SIGKILL ── ending ── margin ──▶ end
//
// Ending is how long it takes to end the processes that run now, as last estimated.
type Grace struct {
	killAfter time.Duration
	margin    time.Duration // for a late timer, and for the kernel to end a few processes
	most      time.Duration // for the kernel to end many of them
}

// The margin is a fortieth of the TTL, within bounds: a loaded machine fires a timer that late, and
// nobody misses the time.
const (
	marginShare = 40
	marginMin   = 25 * time.Millisecond
	marginMax   = 250 * time.Millisecond

	// The time for ending many processes is a sixth of the TTL at most: even with the longest
	// killAfter, a third, there is time to renew the lock before SIGTERM.
	endingShare = 6
)

// NewGrace returns the grace for a lock with that TTL.
func NewGrace(ttl, killAfter time.Duration) Grace {
	return Grace{
		killAfter: killAfter, margin: min(max(ttl/marginShare, marginMin), marginMax), most: ttl / endingShare,
	}
}

// Least is the shortest validity worth starting a command with.
func (g Grace) Least() time.Duration { return g.killAfter + 2*g.margin }

// step is what to do with a command at a given moment.
type step uint8

const (
	leave     step = iota
	terminate      // SIGTERM
	kill           // SIGKILL
)

// next returns what to do when this much validity is left, and how long to wait before the next
// check: until the next step is due if the lock is not renewed meanwhile. The pause is never zero,
// so there is no busy loop; after kill there is no next check.
func (g Grace) next(left time.Duration) (step, time.Duration) {
	switch {
	case left <= g.margin:
		return kill, 0
	case left <= g.killAfter+g.margin:
		return terminate, left - g.margin
	default:
		return leave, left - g.killAfter - g.margin
	}
}
