//go:build unix

package job

import (
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The test process itself gets the signals; nothing else in it subscribes to them.
func TestFloodOfOneSignalDisplacesNoOther(t *testing.T) {
	t.Cleanup(func() { signal.Reset(syscall.SIGWINCH, syscall.SIGUSR2) })
	signals := make(chan os.Signal)
	Notify(signals, []os.Signal{syscall.SIGWINCH, syscall.SIGUSR2})
	for range 3000 {
		require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGWINCH))
	}
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGUSR2))
	late := time.After(time.Minute)
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
