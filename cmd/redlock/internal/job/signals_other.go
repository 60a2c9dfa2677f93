//go:build !unix

package job

import (
	"os"
	"os/signal"
	"syscall"
)

// EndingSignals end a wait for the lock, and are passed on to the command once it runs.
var EndingSignals = []os.Signal{os.Interrupt, syscall.SIGTERM}

// RunningSignals matter only once the command runs: none.
var RunningSignals []os.Signal

// IsSuspend reports false: no signal stops a process.
func IsSuspend(os.Signal) bool { return false }

// Suspend does nothing.
func Suspend() {}

// Notify subscribes to signals. A channel with room for one is enough: repetitions mean nothing
// more.
func Notify(signals chan<- os.Signal, wanted []os.Signal) {
	for _, s := range wanted {
		pending := make(chan os.Signal, 1)
		signal.Notify(pending, s)
		go func() { // ends with the process
			for s := range pending {
				signals <- s
			}
		}()
	}
}

// IgnorePipes does nothing: writing to a pipe without a reader only returns an error.
func IgnorePipes() {}

// jobControl does nothing: there is no job control.
type jobControl struct{}

func newJobControl(*child, Messages) jobControl { return jobControl{} }

func (jobControl) stopped(syscall.Signal)            {}
func (jobControl) takes(syscall.Signal, func()) bool { return false }
func (jobControl) wake()                             {}
func (jobControl) leaderEnded()                      {}
func (jobControl) end()                              {}
