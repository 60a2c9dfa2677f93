package elect

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
)

func TestMistakesInTheCommandLineOfElectAreUsageErrors(t *testing.T) {
	t.Setenv("REDLOCK_NODES", "127.0.0.1:1")
	for _, c := range []struct{ args, want string }{
		{"--name x", "needs a command"},
		{"-- true", "--name NAME"},
		{"--name x --ttl 999ms true", "--ttl"},
		{"--name x --kill-after 11s true", "--kill-after"},
		{"--name x --kill-after -1s true", "--kill-after"},
		{"--name x --ttl 2m true", "--ttl: 2m0s is above the --max-ttl of 1m0s"},
		{"--name x --owner= true", "--owner"},
		{"--name x --owner " + strings.Repeat("o", 257) + " true", "--owner"},
		{"--name " + strings.Repeat("n", 4097) + " true", "--name"},
		{"--name redquorum:x true", "reserved"},
		{"--name x --quiet --verbose true", "--verbose"},
		{"--name x --no-wait true", "no-wait"},
	} {
		status, _, stderr := clitest.Line(clitest.Root(NewCommand()), append([]string{"elect"}, strings.Fields(c.args)...)...)
		assert.Equal(t, cli.ExitUsage, status, c.args)
		assert.Contains(t, stderr, c.want)
	}
	status, _, _ := clitest.Line(clitest.Root(NewCommand()), "elect", "--quiet", "--name", "x", "/no/such/command")
	assert.Equal(t, cli.ExitNotFound, status)
}
