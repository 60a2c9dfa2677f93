package main

import (
	"regexp"
	"strconv"
	"syscall"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
)

func TestTopGivesTheTerminalBack(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.set(3, "nightly", "value|somebody", "PX", 3_600_000)
	for name, end := range map[string]func(t *testing.T, term *clitest.Terminal, pid int){
		"q":      func(t *testing.T, term *clitest.Terminal, _ int) { term.Press(t, "q") },
		"Ctrl-C": func(t *testing.T, term *clitest.Terminal, _ int) { term.Press(t, "\x03") },
		"signal": func(t *testing.T, _ *clitest.Terminal, pid int) {
			require.NoError(t, syscall.Kill(pid, syscall.SIGTERM))
		},
	} {
		t.Run(name, func(t *testing.T) {
			term, cmd := clitest.StartOnTerminal(t, clitest.URLs(f.servers), "-c", `TERM=xterm NO_COLOR=1 sh -c 'echo "pid=$$."; exec "$0" top --interval 200ms' "$0"
				echo "status=$?"; read answer; echo "<$answer>"`)
			term.AwaitText(t, "somebody")
			pid, err := strconv.Atoi(regexp.MustCompile(`pid=(\d+)\.`).FindStringSubmatch(term.Text())[1])
			require.NoError(t, err)
			end(t, term, pid)
			term.AwaitText(t, ansi.ResetModeAltScreenSaveCursor)
			term.AwaitText(t, "status=0")
			term.Press(t, "lines again\n") // raw mode would have no Enter
			term.AwaitText(t, "<lines again>")
			assert.Equal(t, 0, cmd.Wait(t))
			assert.NotContains(t, term.Text(), "\x1b[32m", "NO_COLOR")
		})
	}
}

func TestTopTakesALockFromItsHolderAndTheLogTells(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.set(3, "nightly", "value|somebody", "PX", 3_600_000)
	term, cmd := clitest.StartOnTerminal(t, clitest.URLs(f.servers), "-c", `TERM=xterm exec "$0" top --interval 200ms --allow-force`)
	for _, step := range []struct{ await, keys string }{
		{"somebody", "\r"}, {"have its value", "u"}, {"Name:", "nightly\r"}, {"Why?", "host7-is-gone\r"}, {"Released", "q"},
	} {
		term.AwaitText(t, step.await)
		term.Press(t, step.keys)
	}
	assert.Equal(t, 0, cmd.Wait(t))
	_, log, _ := f.line("log")
	assert.Regexp(t, `forced  nightly  somebody .* host7-is-gone\n`, log)
}
