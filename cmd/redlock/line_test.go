package main

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/masters"
	"github.com/redquorum/redquorum/cmd/redlock/internal/terminal"
)

// refused asserts that each command line is a usage error that says something. A secret is the
// password of an endpoint, and never shown. DIR is a folder with lists of masters.
func refused(t *testing.T, lines []struct{ env, line, says string }) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"empty": "# none\n", "large": strings.Repeat("\x00", 64<<10+1),
		"spaced": "# masters\na:1 # one\nredis://:secret@b:1 c:1\n", "wrong": "a:1,c:1\nb:#no\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	for _, c := range lines {
		t.Setenv(masters.Variable, c.env)
		args := strings.Fields(c.line)
		for i := range args {
			args[i] = strings.Replace(args[i], "DIR", dir, 1)
		}
		status, stdout, stderr := line(args...)
		assert.Equal(t, cli.ExitUsage, status, c.line)
		assert.Empty(t, stdout, c.line)
		assert.Contains(t, stderr, c.says, c.line)
		assert.NotContains(t, stderr, "secret", c.line)
	}
}

func TestWrongEndpointsAreUsageErrorsWithoutThePassword(t *testing.T) {
	refused(t, []struct{ env, line, says string }{
		{"", "run --name x go", "which masters? Set REDLOCK_NODES"},
		{"", "inspect x", "which masters? Set REDLOCK_NODES"},
		{"a:1,,b:2", "inspect x", "REDLOCK_NODES: endpoint 2 of 3 is empty"},
		{"redis://:secret@", "inspect x", "REDLOCK_NODES[1]: "},
		{"redis://:secret@", "doctor", "REDLOCK_NODES[1]: "},
		{"redis://a:1 redis://:secret@b:1", "doctor", "REDLOCK_NODES[1]: several endpoints in one: each is an entry of its own"},
		{"c:1,a:1 b:1", "list", "REDLOCK_NODES[2]: several endpoints in one"},
		{"a:1,password=secret", "list", "REDLOCK_NODES[2]: the host is neither"},
		{"a:1:secret", "list", "REDLOCK_NODES[1]: neither host:port"},
		{"secret:a:1", "list", "REDLOCK_NODES[1]: neither host:port"},
		{"a:secret", "list", "REDLOCK_NODES[1]: the port is not"},
		{"\"redis://:secret@a:1\"", "list", "REDLOCK_NODES[1]: an endpoint has no quotes"},
		{"REDLOCK_NODES=redis://:secret@a:1", "list", "REDLOCK_NODES[1]: give the endpoint alone"},
		{"a:1 secret", "list", "REDLOCK_NODES[1]: a space"},
		{"a:1/secret", "list", "REDLOCK_NODES[1]: neither host:port"},
		{"a:1,b:99999", "inspect x", `REDLOCK_NODES[2] "b:99999": the port is not`},
		{"a:1,default:12345678", "list", "REDLOCK_NODES[2]: the port is not"},
		{"redis://secret@a:1", "list", "REDLOCK_NODES[1]: a user without a password (a password alone has a colon in front, as :password@host)"},
		{"", "run --name x --nodes redis://:secret@a:b go", "--nodes[1]: "},
		{"", "doctor --nodes a:1,a:1", "are the same server"},
		{"", "unlock --force --reason y x --nodes a:1 --nodes-file DIR/empty", "only one of them"},
		{"", "unlock --force x --nodes a:1", "give --reason"},
		{"", "log redis://:secret@a:1", "the name of a lock is wanted"},
		{"", "doctor --nodes-file DIR/empty", "--nodes-file: no endpoint"},
		{"", "doctor --nodes-file DIR/large", "is larger than"},
		{"", "doctor --nodes-file DIR/none", "--nodes-file: open"},
		{"", "doctor --nodes-file DIR/spaced", "--nodes-file, line 3: several endpoints in one"},
		{"", "inspect x --nodes-file DIR/wrong", "--nodes-file, line 2: neither host:port"},
		{"", "doctor --nodes-file redis://:secret@a:1", "--nodes-file: open redis://…@a:1"},
		{"a:1", "doctor redis://:secret@a:1", "takes no arguments"},
		{"a:1", "init redis://:secret@a:1", "init takes no arguments"},
		{"a:1", "inspect x redis://:secret@a:1", "the name of one lock"},
		{"a:1", "redis://:secret@a:1", "there is no such command"},
		{"a:1", "inspect redis://:secret@a:1", "the name of a lock is wanted"},
		{"a:1", "run --name Redis://:secret@a:1 true", "the name of a lock is wanted"},
		{"a:1", "elect --name rediss://:secret@a:1 true", "the name of a lock is wanted"},
		{"a:1", "run --name x -psecret true", "unknown flag -p"},
		{"a:1", "doctor -nredis://:secret@a:1", "it is not shown"},
	})
	// A list with spaces between the endpoints makes commands of them.
	status, _, stderr := line("run", "--name", "x", "--nodes", "redis://:secret@a:1", "redis://u:sec@ret@b:1", "redis://:secret@c:1")
	assert.Equal(t, cli.ExitNotFound, status)
	assert.NotContains(t, stderr, "sec")
	assert.Contains(t, stderr, "redis://…@b:1")
}

func TestMistypedLinesAreUsageErrors(t *testing.T) {
	const none = "127.0.0.1:1" // nobody is there, and nobody is asked
	lines := []struct{ env, line, says string }{
		{"", "dmo", "did you mean demo?"},
		{"", "rnu --name x -- true", "did you mean run?"},
		{"", "nothing --name x", `there is no command "nothing"`},
		{"", "help dmo", "did you mean demo?"},
		{"", "completion bahs", `there is no completion for "bahs"`},
		{"", "run --name --no-wait -- true", `--name has the value "--no-wait", which is a flag: is a variable empty?`},
		{"", "run --name --wait=5m -- true", "is a variable empty?"},
		{"", "run --name -- true", "is a variable empty?"},
		{"", "run --name x --owner --quiet true", "is a variable empty?"},
		{"", "elect --name --ttl 9s -- true", "is a variable empty?"},
		{none, "list --limit 0", "--scan and --limit"},
		{none, "log redquorum:something:else", "reserved"},
		{none, "top", "redlock list prints the locks once"}, // stdout is no terminal
		{none, "top --interval 1ms", "--interval: 1ms is shorter than 200ms"},
	}
	for name, is := range map[string]string{
		"redquorum:terms:x":         `"redquorum:terms:x" is no lock, but the newest terms of the election "x"`,
		"redquorum:permits:a:b":     `the number of permits of the semaphore "a:b"`,
		"redquorum:permit:wait:x":   `the wait list of the semaphore "x"`,
		"redquorum:readers:x":       `the readers of the shared lock "x"`,
		"redquorum:intent:x":        `a writer waits for the readers of the lock "x"`,
		"redquorum:memory":          "do not delete it",
		"redquorum:log":             "see redlock log",
		"redquorum:something:else:": "reserved",
	} {
		for _, command := range []string{"inspect ", "unlock --force --reason y "} {
			lines = append(lines, struct{ env, line, says string }{none, command + name, is})
		}
	}
	refused(t, lines)
}

func TestHelpGoesToStdout(t *testing.T) {
	for text, want := range map[string]string{
		"": "redlock help run", "--help": "redlock help run",
		"help demo": "redlock demo --duration", "demo -h": "redlock demo --duration",
		"completion": "bash", "completion bash": "redlock", "completion zsh": "redlock",
		"completion fish": "redlock", "completion powershell": "redlock",
	} {
		status, stdout, stderr := line(strings.Fields(text)...)
		assert.Zero(t, status, text)
		assert.Empty(t, stderr, text)
		assert.Contains(t, stdout, want, text)
	}
}

// A line that is longer is broken in the middle of a word.
func TestHelpFitsIn80Columns(t *testing.T) {
	names := [][]string{{}, {"completion"}, {"completion", "bash"}}
	for _, cmd := range newRoot().Commands() {
		names = append(names, []string{cmd.Name()})
		for _, sub := range cmd.Commands() {
			names = append(names, []string{cmd.Name(), sub.Name()})
		}
	}
	for _, name := range names {
		_, stdout, _ := line(append(name, "--help")...)
		assert.Contains(t, stdout, "\nFlags:\n", name)
		for text := range strings.Lines(stdout) {
			assert.LessOrEqual(t, terminal.Columns(strings.TrimRight(text, "\n")), 80, "%q: %s", name, text)
		}
	}
}

func TestVersionSaysWhatTheBuildKnows(t *testing.T) {
	revision := []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "true"}}
	for _, c := range []struct {
		info debug.BuildInfo
		want string
	}{
		{debug.BuildInfo{}, "redlock"},
		{debug.BuildInfo{GoVersion: "go1.26.0", Main: debug.Module{Version: "v1.2.3"}}, "redlock v1.2.3 go1.26.0"},
		{debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: revision}, "redlock (devel) commit abc (modified)"},
	} {
		assert.Equal(t, c.want, versionText(&c.info))
	}
	status, stdout, _ := line("version")
	assert.Zero(t, status)
	assert.Regexp(t, "^redlock ", stdout)
}
