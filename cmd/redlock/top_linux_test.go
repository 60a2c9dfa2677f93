package main

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
	"github.com/redquorum/redquorum/cmd/redlock/internal/terminal"
)

func TestTopGivesTheTerminalBack(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.set(3, "nightly", "value|somebody", "PX", 60_000)
	for _, end := range []string{"q", "\x03"} {
		term, cmd := clitest.StartOnTerminal(t, clitest.URLs(f.servers), "-c", `TERM=xterm NO_COLOR=1 "$0" top --interval 200ms; echo "status=$?"; read answer; echo "<$answer>"`)
		term.AwaitText(t, "nightly  lock  held   somebody")
		term.Press(t, end)
		term.AwaitText(t, terminal.LeaveScreen)
		term.AwaitText(t, "status=0")
		term.Press(t, "lines again\n") // raw mode would have no Enter
		term.AwaitText(t, "<lines again>")
		assert.Equal(t, 0, cmd.Wait(t))
		assert.NotContains(t, term.Text(), "\x1b[32m", "NO_COLOR")
	}
}
