package job

import "time"

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
