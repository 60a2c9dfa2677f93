package run

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
)

// stopsAndContinues presses ^Z, and continues the job once the shell has noticed. The command then
// exits with status 6 as soon as a file exists.
func stopsAndContinues(t *testing.T, urls []string, keys, command string) {
	t.Helper()
	goOn := filepath.Join(t.TempDir(), "go on")
	term, shell := clitest.StartOnTerminal(t, urls, "-mc", fmt.Sprintf(`GO_ON='%s'; export GO_ON; "$0" run --name outer -- %s
		echo "stopped"; read x; fg >/dev/null; echo "status=$?"`, goOn, command))
	term.Press(t, keys)
	term.AwaitText(t, "ready")
	term.Press(t, "\x1a")
	term.AwaitText(t, "stopped")
	require.NoError(t, os.WriteFile(goOn, nil, 0o600))
	term.Press(t, "continue\n")
	term.AwaitText(t, "status=6")
	clitest.Await(t, shell)
}

// spin waits for the file without starting a process: a shell that starts one stops only together
// with it (vfork).
const spin = `while ! [ -e "$GO_ON" ]; do :; done; exit 6`

// A redlock run that ^Z stops sends SIGSTOP to itself.
func TestSuspendKeyStopsARunWithinARun(t *testing.T) {
	t.Parallel()
	_, urls := clitest.StartServers(t, 3)
	stopsAndContinues(t, urls, "", fmt.Sprintf(`"$0" run --name inner --nodes %s -- sh -c 'echo ready; %s'`, strings.Join(urls, ","), spin))
}

func TestCommandThatStopsItselfForTheSuspendKeyTakesTheJobAlong(t *testing.T) {
	t.Parallel()
	_, urls := clitest.StartServers(t, 3)
	stopsItself := fmt.Sprintf(`trap "kill -STOP \$\$" TSTP; echo ready; %s`, spin)
	stopsAndContinues(t, urls, "", fmt.Sprintf(`sh -c '%s'`, stopsItself))
	// It has the terminal.
	stopsAndContinues(t, urls, "first\n", fmt.Sprintf(`sh -c 'read x; %s'`, stopsItself))
}
