//go:build unix

package top

import (
	"os"
	"os/signal"
	"syscall"
)

// watchSize returns a channel that tells when the terminal has another size. Call end when done.
func watchSize() (resized <-chan os.Signal, end func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGWINCH)
	return signals, func() { signal.Stop(signals) }
}
