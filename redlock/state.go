package redlock

import "fmt"

// state is where a lock is in its life:
//
//	held ──Unlock, Close──▶ released
//	  └──validity ends, or a quorum says no──▶ lost
//
// Both ends are final. Unlock of a lost lock sends the releases, and the lock stays lost.
type state uint8

const (
	held state = iota
	released
	lost
)

// move is the only way from one state to another. An unknown edge is a bug of this package.
func (s *state) move(to state) {
	if *s == held && (to == released || to == lost) {
		*s = to
		return
	}
	panic(fmt.Sprintf("redlock: a lock cannot go from %v to %v", *s, to))
}

func (s state) String() string {
	switch s {
	case held:
		return "held"
	case released:
		return "released"
	case lost:
		return "lost"
	default:
		return fmt.Sprintf("state(%d)", uint8(s))
	}
}
