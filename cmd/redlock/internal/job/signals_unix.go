//go:build unix

package job

import (
	"os"
	"os/signal"
	"syscall"
)

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
