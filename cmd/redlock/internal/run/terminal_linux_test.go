package run

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
)

func TestCommandReadsFromTheTerminal(t *testing.T) {
	t.Parallel()
	_, urls := clitest.StartServers(t, 3)
	for _, mode := range []string{"-mc", "-c"} {
		term, cmd := clitest.StartOnTerminal(t, urls, mode, `"$0" run --name x -- sh -c 'echo ask; read answer; echo "<$answer>"; exit 5'; echo "status=$?"; read more; echo "<$more>"`)
		term.AwaitText(t, "ask")
		term.Press(t, "yes\n")
		term.AwaitText(t, "<yes>")
		term.AwaitText(t, "status=5")
		term.Press(t, "after\n") // the shell has its terminal back
		term.AwaitText(t, "<after>")
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
		term, cmd := clitest.StartOnTerminal(t, urls, "-mc", fmt.Sprintf(`trap : INT; "$0" run --name key -- sh -c '%s'; echo "status=$?"`, command))
		term.AwaitText(t, "ready")
		term.Press(t, "\x03")
		term.AwaitText(t, "status=130")
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
		term, cmd := clitest.StartOnTerminal(t, urls, "-mc", fmt.Sprintf(`"$0" run --name suspend -- sh -c '%secho ready; i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; read y; echo "<$y>"; exit 6'
			echo "stopped"; read between; echo "<$between>"; fg >/dev/null; echo "status=$?"`, first))
		if first != "" {
			term.Press(t, "first\n")
		}
		term.AwaitText(t, "ready")
		term.Press(t, "\x1a")
		term.AwaitText(t, "stopped")
		term.Press(t, "shell\n")
		term.AwaitText(t, "<shell>")
		term.Press(t, "command\n")
		term.AwaitText(t, "<command>")
		term.AwaitText(t, "status=6")
		clitest.Await(t, cmd)
	}
}

// If nobody could continue the job, the key does nothing, as without redlock.
func TestSuspendKeyDoesNothingWithoutJobControl(t *testing.T) {
	t.Parallel()
	_, urls := clitest.StartServers(t, 3)
	term, cmd := clitest.StartOnTerminal(t, urls, "-c", `"$0" run --name x -- sh -c 'echo ready; read y; echo "<$y>"; exit 6'; echo "status=$?"`)
	term.AwaitText(t, "ready")
	term.Press(t, "\x1a")
	term.Press(t, "go on\n")
	term.AwaitText(t, "<go on>")
	term.AwaitText(t, "status=6")
	assert.Equal(t, 0, clitest.Await(t, cmd))
}
