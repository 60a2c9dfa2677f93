package run

import (
	"syscall"
	"time"

	"github.com/redquorum/redquorum/clock"
)

const (
	restShortest = 2 * time.Millisecond // between two looks whether anybody is left
	restLongest  = 100 * time.Millisecond
	restTold     = time.Second // a rest that ends sooner is not worth a line in cron's mail
)

// rest is what a command has left running in its group. The lock covers it as well, as flock(1)
// covers all who have its file open: it is renewed until nobody is left, and its loss ends the
// rest.
//
// Nobody tells us of a process that is not our child, so we look. A rest that has ended is noticed
// restLongest later at most.
type rest struct {
	status int           // of the command itself
	since  clock.Instant // when that ended
	ending bool          // somebody has asked for its end
	killAt clock.Instant // when it gets SIGKILL then
	killed clock.Instant // when it got it; 0 if not yet
	told   bool          // that we wait
	stuck  bool          // told that SIGKILL did not end it
	pause  clock.Backoff
	timer  *clock.Timer
	look   chan struct{} // has room for one
}

// leaveRest is called when the command itself has ended, and others of its group have not.
func (s *supervisor) leaveRest(status int) {
	r := &rest{
		status: status, since: s.clock.Now(), look: make(chan struct{}, 1),
		pause: clock.Backoff{Shortest: restShortest, Longest: restLongest},
	}
	s.rest = r
	s.job.leaderEnded()
	r.timer = s.clock.AfterFunc(r.pause.Next(), func() {
		select {
		case r.look <- struct{}{}:
		default: // a look is due already
		}
	})
	if s.killRest {
		s.endRest(0)
	}
}

// looks returns the channel that asks for a look at the rest; nil while there is none.
func (r *rest) looks() <-chan struct{} {
	if r == nil {
		return nil
	}
	return r.look
}

func (r *rest) end() {
	if r != nil {
		r.timer.Stop()
	}
}

// lookAtRest reports whether nobody is left, and otherwise does what is due.
func (s *supervisor) lookAtRest() bool {
	if s.command.gone() {
		return true
	}
	r, now := s.rest, s.clock.Now()
	if !r.told && !r.ending && !s.lost && now.Sub(r.since) >= restTold {
		r.told = true
		s.messages.say("left-running", "the command has ended; lock %q is held until what it left running has ended, too (--kill-rest ends it)", s.messages.name)
	}
	if !r.stuck && r.killed != 0 && now.Sub(r.killed) >= restTold {
		r.stuck = true // in the kernel, or it belongs to another user
		s.messages.say("not-ended", "what the command left running does not end; lock %q is held until it has", s.messages.name)
	}
	again := r.pause.Next()
	switch {
	case !r.ending || r.killed != 0:
	case now >= r.killAt:
		r.killed = now
		s.send(syscall.SIGKILL)
	default:
		again = min(again, r.killAt.Sub(now))
	}
	r.timer.Reset(again)
	return false
}

// endRest gives the rest SIGTERM, unless that was the signal that asked for its end, and SIGKILL
// later.
func (s *supervisor) endRest(asked syscall.Signal) {
	r := s.rest
	s.look() // before anything goes on: we may have been stopped past the validity
	if r.ending || s.dead {
		return
	}
	r.ending = true
	if asked != syscall.SIGTERM {
		s.send(syscall.SIGTERM)
	}
	s.job.wake() // a process that is stopped cannot end itself
	r.killAt = s.clock.Now().Add(s.grace.killAfter)
	r.timer.Reset(min(restShortest, s.grace.killAfter))
}

// endsRest reports whether a signal asks a rest to end. SIGHUP does not: what was started with
// nohup is meant to stay.
func endsRest(s syscall.Signal) bool {
	return s == syscall.SIGINT || s == syscall.SIGTERM || s == syscall.SIGQUIT
}
