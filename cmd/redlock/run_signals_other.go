//go:build !unix

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// endingSignals end a wait for the lock, and are passed on to the command once it runs.
var endingSignals = []os.Signal{os.Interrupt, syscall.SIGTERM}

// runningSignals are of interest only once the command runs: none.
var runningSignals []os.Signal

// signalRoom is how many signals wait while we are busy.
const signalRoom = 16

func notify(signals chan<- os.Signal, wanted []os.Signal) {
	for _, s := range wanted { // none at all would mean all there are
		signal.Notify(signals, s)
	}
}

// jobControl does nothing: there is none.
type jobControl struct{}

func newJobControl(*child, messages) jobControl { return jobControl{} }

func (jobControl) stopped(syscall.Signal)            {}
func (jobControl) takes(syscall.Signal, func()) bool { return false }
func (jobControl) wake()                             {}
func (jobControl) leaderEnded()                      {}
func (jobControl) end()                              {}
