package run

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
)

// terminal is a terminal whose keyboard and screen is the test.
type terminal struct {
	keyboard *os.File
	mu       sync.Mutex // guards the field below
	screen   strings.Builder
}

// startOnTerminal starts a shell as the leader of a session on a new terminal: in mode -mc with job
// control, in mode -c without.
func startOnTerminal(t *testing.T, urls []string, mode, script string) (*terminal, *exec.Cmd) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { master.Close() })
	require.NoError(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	defer slave.Close()
	cmd := clitest.Process(t, urls)
	cmd.Args = []string{"sh", mode, script, cmd.Path}
	cmd.Path, err = exec.LookPath("sh")
	require.NoError(t, err)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, cmd.Start())
	term := &terminal{keyboard: master}
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
	return term, cmd
}

func (term *terminal) text() string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return term.screen.String()
}

func (term *terminal) awaitText(t *testing.T, text string) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the screen:\n%s", term.text())
		}
	})
	clitest.WaitFor(t, "on the screen: "+text, func() bool { return strings.Contains(term.text(), text) })
}

func (term *terminal) press(t *testing.T, keys string) {
	t.Helper()
	_, err := io.WriteString(term.keyboard, keys)
	require.NoError(t, err)
}

func TestCommandReadsFromTheTerminal(t *testing.T) {
	t.Parallel()
	_, urls := clitest.StartServers(t, 3)
	for _, mode := range []string{"-mc", "-c"} {
		term, cmd := startOnTerminal(t, urls, mode, `"$0" run --name x -- sh -c 'echo ask; read answer; echo "<$answer>"; exit 5'; echo "status=$?"; read more; echo "<$more>"`)
		term.awaitText(t, "ask")
		term.press(t, "yes\n")
		term.awaitText(t, "<yes>")
		term.awaitText(t, "status=5")
		term.press(t, "after\n") // the shell has its terminal back
		term.awaitText(t, "<after>")
		assert.Equal(t, 0, clitest.Await(t, cmd))
	}
}

func TestInterruptKeyEndsTheCommand(t *testing.T) {
	t.Parallel()
	_, urls := clitest.StartServers(t, 3)
	for _, command := range []string{
		`echo ready; exec sleep 60`,  // in the background: redlock gets the key and passes it on
		`echo ready; read x; exit 1`, // in the foreground: the command gets the key
	} {
		term, cmd := startOnTerminal(t, urls, "-mc", fmt.Sprintf(`trap : INT; "$0" run --name key -- sh -c '%s'; echo "status=$?"`, command))
		term.awaitText(t, "ready")
		term.press(t, "\x03")
		term.awaitText(t, "status=130")
		clitest.Await(t, cmd)
	}
}

// ^Z stops the command and redlock, so that the shell continues; fg continues both.
func TestSuspendKeyStopsTheJobAndForegroundContinuesIt(t *testing.T) {
	t.Parallel()
	_, urls := clitest.StartServers(t, 3)
	// A shell that is starting a process stops only together with it (vfork), so this one counts
	// for a while.
	// Without and with the terminal lent to the command.
	for _, first := range []string{"", "read x; "} {
		term, cmd := startOnTerminal(t, urls, "-mc", fmt.Sprintf(`"$0" run --name suspend -- sh -c '%secho ready; i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; read y; echo "<$y>"; exit 6'
			echo "stopped"; read between; echo "<$between>"; fg >/dev/null; echo "status=$?"`, first))
		if first != "" {
			term.press(t, "first\n")
		}
		term.awaitText(t, "ready")
		term.press(t, "\x1a")
		term.awaitText(t, "stopped")
		term.press(t, "shell\n")
		term.awaitText(t, "<shell>")
		term.press(t, "command\n")
		term.awaitText(t, "<command>")
		term.awaitText(t, "status=6")
		clitest.Await(t, cmd)
	}
}

// If nobody could continue the job, the key does nothing, as without redlock.
func TestSuspendKeyDoesNothingWithoutJobControl(t *testing.T) {
	t.Parallel()
	_, urls := clitest.StartServers(t, 3)
	term, cmd := startOnTerminal(t, urls, "-c", `"$0" run --name x -- sh -c 'echo ready; read y; echo "<$y>"; exit 6'; echo "status=$?"`)
	term.awaitText(t, "ready")
	term.press(t, "\x1a")
	term.press(t, "go on\n")
	term.awaitText(t, "<go on>")
	term.awaitText(t, "status=6")
	assert.Equal(t, 0, clitest.Await(t, cmd))
}
