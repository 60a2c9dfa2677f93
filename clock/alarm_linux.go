package clock

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// alarm is a kernel timer on CLOCK_BOOTTIME, the clock of systemNow. If its time passes while the
// machine sleeps, it fires when the machine wakes. It does not wake the machine.
type alarm struct{ file *os.File }

// newAlarm calls f in its own goroutine when System reads due, and returns what stops it. It
// returns nil if the kernel gives us no timer: too many files are open, or a sandbox forbids it.
func newAlarm(due Instant, f func()) stopper {
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil
	}
	a := alarm{os.NewFile(uintptr(fd), "timerfd")}
	at := unix.ItimerSpec{Value: unix.NsecToTimespec(max(int64(due), 1))} // zero would disarm it
	if err := unix.TimerfdSettime(fd, unix.TFD_TIMER_ABSTIME, &at, nil); err != nil {
		a.Stop()
		return nil
	}
	go a.wait(f) // ends at that time, or with Stop
	return a
}

func (a alarm) wait(f func()) {
	var times [8]byte
	_, err := a.file.Read(times[:])
	if errors.Is(err, os.ErrClosed) { // stopped
		return
	}
	a.Stop()
	if err != nil { // cannot happen; if it does, tick after one nap
		time.AfterFunc(MaxNap, f)
		return
	}
	f()
}

// Stop ends the alarm. It does not wait for f.
func (a alarm) Stop() bool { return a.file.Close() == nil }
