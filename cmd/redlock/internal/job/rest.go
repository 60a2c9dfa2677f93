package job

import (
	"syscall"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/prose"
)

const (
	restShortest = 2 * time.Millisecond // between two checks
	restLongest  = 100 * time.Millisecond
	restTold     = time.Second // a rest that ends sooner is not worth a line in cron's mail
	restQuiet    = time.Minute // nor is one with --quiet that ends before this, or is shorter than the command was
	restAgain    = time.Hour   // at the latest after the last time
)

// rest is what a command leaves running. The lock covers it too, as flock(1) covers
// every process that has its file open: the lock is renewed until no process is left, and losing it
// ends the rest.
//
// Nobody reports the end of a process that is not our child, so we poll. We notice the end of a
// rest within restLongest.
type rest struct {
	status int           // of the command itself
	since  clock.Instant // when the command ended
	ending bool          // somebody has asked it to end
	killAt clock.Instant // when it gets SIGKILL after that
	killed clock.Instant // when it got SIGKILL; 0 if not yet
	tell   clock.Instant // when we next say that we wait
	noted  bool          // the masters are told
	stuck  bool          // we said that SIGKILL did not end it
	pause  clock.Backoff
	timer  *clock.Timer
	tick   chan struct{} // has room for one
}

// leaveRest is called when the command itself has ended while others of its group run.
func (s *supervisor) leaveRest(status int) {
	r := &rest{
		status: status, since: s.clock.Now(), tick: make(chan struct{}, 1),
		pause: clock.Backoff{Shortest: restShortest, Longest: restLongest},
	}
	s.rest = r
	r.tell = r.since.Add(restTold)
	if s.messages.Quiet {
		r.tell = r.since.Add(min(max(restTold, r.since.Sub(s.began)), restQuiet))
	}
	s.job.leaderEnded()
	r.timer = s.clock.AfterFunc(r.pause.Next(), func() {
		select {
		case r.tick <- struct{}{}:
		default: // a check is due already
		}
	})
	switch {
	case s.lost:
		s.endRest(syscall.SIGTERM) // which it has got
	case s.killRest:
		s.endRest(0)
	}
}

// ticks returns the channel that asks for a check of the rest; nil while there is none.
func (r *rest) ticks() <-chan struct{} {
	if r == nil {
		return nil
	}
	return r.tick
}

func (r *rest) end() {
	if r != nil {
		r.timer.Stop()
	}
}

// checkRest reports whether no process is left, and otherwise does what is due.
func (s *supervisor) checkRest() bool {
	if s.command.gone() {
		return true
	}
	r, now := s.rest, s.clock.Now()
	if s.left != nil && !r.noted && now.Sub(r.since) >= restTold && !s.lost {
		r.noted = true
		s.left(r.status, s.command.left())
	}
	if now >= r.tell && !r.ending && !s.lost {
		s.tellRest(now)
	}
	if !r.stuck && r.killed != 0 && now.Sub(r.killed) >= restTold {
		r.stuck = true // in the kernel, or another user's
		s.messages.Warn("not-ended", "what the command left running does not end; lock %q is held until it does", s.messages.Name)
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
	if r.killed != 0 {
		s.command.sweep()
	}
	r.timer.Reset(again)
	return false
}

// tellRest says that the lock is held for the rest, and again after ten times as long. It says so
// with --quiet, too: a helper that never ends keeps the job from running ever again.
func (s *supervisor) tellRest(now clock.Instant) {
	r := s.rest
	ago := ""
	waited := now.Sub(r.since)
	if waited >= 2*restTold {
		ago = " " + prose.Span(waited) + " ago"
	}
	r.tell = now.Add(min(9*waited, restAgain))
	s.messages.Warn("left-running", "the command has ended%s; lock %q is held until what it left running has ended too%s (--kill-rest ends it, --detach leaves daemons alone)",
		ago, s.messages.Name, s.command.left())
}

// endRest sends SIGTERM to the rest, unless that was the signal that asked it to end, and SIGKILL
// later.
func (s *supervisor) endRest(asked syscall.Signal) {
	r := s.rest
	s.check() // before anything continues: we may have been stopped past the validity
	if r.ending || s.dead {
		return
	}
	r.ending = true
	if asked != syscall.SIGTERM {
		s.send(syscall.SIGTERM)
	}
	s.job.wake() // a stopped process cannot end itself
	r.killAt = s.clock.Now().Add(s.grace.killAfter)
	r.timer.Reset(min(restShortest, s.grace.killAfter))
}

// endsRest reports whether a signal asks a rest to end. SIGHUP does not: what nohup started is
// meant to stay.
func endsRest(s syscall.Signal) bool {
	return s == syscall.SIGINT || s == syscall.SIGTERM || s == syscall.SIGQUIT
}
