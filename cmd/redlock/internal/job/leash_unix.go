//go:build unix

package job

import (
	"os"

	"golang.org/x/sys/unix"
)

// leashFD is the least number of the leash in the command: above those that scripts use by number.
const leashFD = 29

// leash is a pipe whose writing end all descendants of a command inherit, as they inherit the file
// of flock(1). Nobody writes into it. It is at its end when none of them has it open: they have
// ended, or have closed what they inherited, as daemons do.
type leash struct {
	end chan struct{} // closed at the end of the pipe; nil if there is no pipe
}

// newLeash gives the command its end of a leash. Given is called when the command has it.
func newLeash() (l *leash, given func()) {
	r, w, err := os.Pipe()
	if err != nil { // too many open files: the group counts, as without a leash
		return &leash{}, func() {}
	}
	// Not one of attributes.Files: that would close the descriptors below it that the command
	// inherits from whoever started us. This one is inherited like those, because it is not closed
	// on exec; nothing else is started meanwhile (children.mu).
	held, err := unix.FcntlInt(w.Fd(), unix.F_DUPFD, leashFD)
	_ = w.Close() //nolint:errcheck // nothing was written
	if err != nil {
		_ = r.Close() //nolint:errcheck // nothing was written
		return &leash{}, func() {}
	}
	l = &leash{end: make(chan struct{})}
	go func() { // ends with what holds the pipe, or with us
		_, _ = r.Read(make([]byte, 1)) //nolint:errcheck // the end is what we wait for
		_ = r.Close()                  //nolint:errcheck // nothing was written
		close(l.end)
	}()
	return l, func() { _ = unix.Close(held) } //nolint:errcheck // nothing was written
}

// slack reports whether nobody has the leash any more.
func (l *leash) slack() bool {
	if l.end == nil {
		return true
	}
	select {
	case <-l.end:
		return true
	default:
		return false
	}
}
