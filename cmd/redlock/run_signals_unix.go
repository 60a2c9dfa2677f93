//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// endingSignals end a wait for the lock, and are passed on to the command once it runs.
var endingSignals = []os.Signal{
	syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
}

// runningSignals are of interest only once the command runs.
var runningSignals = []os.Signal{syscall.SIGWINCH, syscall.SIGTSTP, syscall.SIGCONT}

// signalRoom is how many signals wait while we are busy. More of them are lost, as the kernel loses them.
const signalRoom = 16

// notify asks for signals, except for those that our parent wants to be ignored: nohup.
func notify(signals chan<- os.Signal, wanted []os.Signal) {
	for _, s := range wanted {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
}
