package child

import (
	"io"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	Play(map[string]Role{
		"echo": func(self *Self) {
			for line := range self.Heard() {
				self.Tell("heard", line)
			}
			self.Tell("end of", self.Args)
		},
		"spin": func(self *Self) {
			for i := 0; ; i++ {
				if i == 0 {
					self.Tell("spins")
				}
			}
		},
		"interrupt": func(self *Self) {
			p, err := Launch(exec.Command("sh", "-c", "kill -INT $$"))
			require.NoError(self, err)
			self.Tell(p.Exit())
		},
		"fail": func(self *Self) { assert.Fail(self, "as asked"); self.Tell("goes on") },
	})
	os.Exit(m.Run())
}

func TestChildIsToldThingsAndEndsWithItsInput(t *testing.T) {
	t.Parallel()
	p := Start(t, Command("echo", "one", "two"))
	assert.Equal(t, "heard a 1", p.Ask(t, "a", 1))
	require.NoError(t, p.Stop())
	require.NoError(t, p.Tell("b"))
	select {
	case line := <-p.Lines():
		assert.Fail(t, "a stopped process speaks", line)
	case <-time.After(30 * time.Millisecond):
	}
	require.NoError(t, p.Continue())
	assert.Equal(t, "heard b", p.Next(t))
	require.NoError(t, p.CloseInput())
	assert.Equal(t, "end of [one two]", p.Next(t))
	assert.Zero(t, p.Wait(t))
	require.ErrorIs(t, p.Stop(), os.ErrProcessDone)
	require.NoError(t, p.Kill(), "it has ended before")
	assert.False(t, p.Killed())
}

func TestStopReturnsWhenABusyProcessStandsStill(t *testing.T) {
	t.Parallel()
	p := Start(t, Command("spin"))
	p.Next(t)
	for range 50 {
		require.NoError(t, p.Stop())
		stopped, err := p.stopped()
		require.NoError(t, err)
		require.True(t, stopped)
		require.NoError(t, p.Continue())
	}
	require.NoError(t, p.Kill())
	assert.Equal(t, -1, p.Wait(t))
}

func TestChildrenDoNotIgnoreWhatTheirParentWasToldToIgnore(t *testing.T) {
	t.Parallel()
	command := Command("interrupt")
	command.Args = []string{"sh", "-c", `trap "" INT; exec "$0"`, command.Path}
	command.Path = "/bin/sh"
	assert.Equal(t, "signal: interrupt", Start(t, command).Next(t))
}

// report is a testing.TB that records errors.
type report struct {
	testing.TB // of the test, for the methods that do not fail

	errors, fatal int
	cleanups      []func()
}

func (r *report) Errorf(string, ...any) { r.errors++ }

func (r *report) Fatalf(string, ...any) { r.fatal++; runtime.Goexit() }

func (r *report) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }

func TestChildThatFailsByItselfFailsTheTest(t *testing.T) {
	t.Parallel()
	for _, asked := range []bool{false, true} {
		r := &report{TB: t}
		command := Command("fail")
		command.Stderr = io.Discard
		p := Start(r, command)
		assert.Equal(t, "goes on", p.Next(t))
		over := make(chan struct{})
		go func() {
			defer close(over)
			p.Next(r)
		}()
		<-over
		assert.Equal(t, 1, r.fatal, "it says nothing more")
		<-p.ended
		if asked {
			assert.Equal(t, 1, p.Wait(t))
		}
		for _, cleanup := range r.cleanups {
			cleanup()
		}
		assert.Equal(t, !asked, r.errors == 1, "a status that the test has asked for is its business")
	}
}
