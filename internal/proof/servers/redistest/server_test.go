package redistest

import (
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// mustDo sends a command that must succeed.
func mustDo(t *testing.T, server *Server, cmd string, args ...any) any {
	t.Helper()
	reply, err := server.Do(cmd, args...)
	require.NoError(t, err)
	return reply
}

// soon fails the test unless the condition becomes true.
func soon(t *testing.T, condition func() bool, what string) {
	t.Helper()
	require.Eventually(t, condition, time.Minute, 2*time.Millisecond, what)
}

// verdict is a testing.TB that records how its test ended.
type verdict struct {
	testing.TB // for the methods that are not called; always nil

	skipped, failed bool
}

func (v *verdict) Helper() {}

func (v *verdict) Skip(...any) { v.skipped = true; runtime.Goexit() }

func (v *verdict) Fatal(...any) { v.failed = true; runtime.Goexit() }

func (v *verdict) Fatalf(string, ...any) { v.failed = true; runtime.Goexit() }

func TestRequireSkipsOnlyWhereNobodyAskedForAServer(t *testing.T) {
	for name, c := range map[string]struct {
		ci, chosen string
		want       verdict
	}{
		"nowhere":    {"", "", verdict{skipped: true}},
		"in CI":      {"true", "", verdict{failed: true}},
		"chosen one": {"", "no-such-server", verdict{failed: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("CI", c.ci)
			t.Setenv(programVariable, c.chosen)
			t.Setenv("PATH", t.TempDir())
			var got verdict
			done := make(chan struct{})
			go func() {
				defer close(done)
				Require(&got)
			}()
			<-done
			assert.Equal(t, c.want, got)
		})
	}
}

// A rival that answers in place of a server would be taken for a master that has forgotten.
func TestServerIsNotTakenForAnotherOnItsPort(t *testing.T) {
	t.Parallel()
	rival := StartOne(t)
	mute, err := Listen()
	require.NoError(t, err)
	defer closeQuietly(mute)
	taken := []int{rival.port, mute.Addr().(*net.TCPAddr).Port}
	server := StartOne(t, func(c *config) {
		c.pickPort = func() (port int, err error) {
			if len(taken) == 0 {
				return pickPort()
			}
			port, taken = taken[0], taken[1:]
			return port, nil
		}
	})
	assert.Empty(t, taken, "both were tried")
	assert.NotContains(t, []string{rival.Addr(), mute.Addr().String()}, server.Addr())
	mustDo(t, server, "PING")
}

func TestServersEndWithTheirTest(t *testing.T) {
	t.Parallel()
	var servers []*Server
	t.Run("inner", func(t *testing.T) { servers = Start(t, 2) })
	for _, server := range servers {
		assert.Zero(t, server.Pid())
		assert.NoDirExists(t, server.dir)
		_, err := net.Dial("tcp", server.Addr())
		require.Error(t, err)
		require.ErrorContains(t, server.Restart(), "its test is over")
	}
}
