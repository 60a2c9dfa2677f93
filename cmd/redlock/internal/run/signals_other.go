//go:build !unix

package run

import (
	"os"
	"os/signal"
	"syscall"
)

// endingSignals end a wait for the lock, and are passed on to the command once it runs.
var endingSignals = []os.Signal{os.Interrupt, syscall.SIGTERM}

// runningSignals matter only once the command runs: none.
var runningSignals []os.Signal

// notify subscribes to signals. A channel with room for one is enough: repetitions mean nothing
// more.
func notify(signals chan<- os.Signal, wanted []os.Signal) {
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

// ignorePipes does nothing: writing to a pipe without a reader only returns an error.
func ignorePipes() {}

// jobControl does nothing: there is no job control.
type jobControl struct{}

func newJobControl(*child, messages) jobControl { return jobControl{} }

func (jobControl) stopped(syscall.Signal)            {}
func (jobControl) takes(syscall.Signal, func()) bool { return false }
func (jobControl) wake()                             {}
func (jobControl) leaderEnded()                      {}
func (jobControl) end()                              {}
