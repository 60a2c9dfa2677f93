//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The test is sent the signals itself; nothing else of it heeds them.
func TestFloodOfOneSignalDisplacesNoOther(t *testing.T) {
	t.Cleanup(func() { signal.Reset(syscall.SIGWINCH, syscall.SIGUSR2) })
	signals := make(chan os.Signal)
	notify(signals, []os.Signal{syscall.SIGWINCH, syscall.SIGUSR2})
	for range 3000 {
		require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGWINCH))
	}
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGUSR2))
	late := time.After(patience)
	for {
		select {
		case s := <-signals:
			if s == syscall.SIGUSR2 {
				return
			}
		case <-late:
			t.Fatal("SIGUSR2 was lost")
		}
	}
}
