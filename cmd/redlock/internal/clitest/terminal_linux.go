package clitest

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/redquorum/redquorum/internal/proof/servers/child"
)

// Terminal is a terminal whose keyboard and screen is the test.
type Terminal struct {
	keyboard *os.File
	mu       sync.Mutex // guards the field below
	screen   strings.Builder
}

// StartOnTerminal starts a shell as the leader of a session on a new terminal: in mode -mc with job
// control, in mode -c without.
func StartOnTerminal(t *testing.T, urls []string, mode, script string) (*Terminal, *child.Process) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = master.Close() }) //nolint:errcheck // the test is over
	require.NoError(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}))
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	defer func() { _ = slave.Close() }() //nolint:errcheck // the process has it
	cmd := Command(urls)
	cmd.Args = []string{"sh", mode, script, cmd.Path}
	cmd.Path, err = exec.LookPath("sh")
	require.NoError(t, err)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	shell := child.Start(t, cmd)
	term := &Terminal{keyboard: master}
	go func() { // ends with the terminal
		buffer := make([]byte, 4096)
		for {
			n, err := master.Read(buffer)
			term.mu.Lock()
			term.screen.Write(buffer[:n])
			term.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return term, shell
}

// Text returns everything that was written so far.
func (term *Terminal) Text() string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return term.screen.String()
}

// AwaitText waits until a text was written.
func (term *Terminal) AwaitText(t *testing.T, text string) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the screen:\n%s", term.Text())
		}
	})
	WaitFor(t, "on the screen: "+text, func() bool { return strings.Contains(term.Text(), text) })
}

// Press types keys.
func (term *Terminal) Press(t *testing.T, keys string) {
	t.Helper()
	_, err := io.WriteString(term.keyboard, keys)
	require.NoError(t, err)
}
