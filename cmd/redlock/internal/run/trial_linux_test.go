package run

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
)

// No master is there: whoever asks for the lock first learns of that instead.
func TestACommandThatCannotBeExecutedIsFoundOutBeforeTheLockIsRequested(t *testing.T) {
	t.Parallel()
	program, err := os.ReadFile("/proc/self/exe")
	require.NoError(t, err)
	foreign := append([]byte{}, program[:4096]...)
	foreign[18], foreign[19] = 40, 40 // e_machine
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(content), 0o700))
		return path
	}
	plain := filepath.Join(dir, "plain")
	require.NoError(t, os.WriteFile(plain, nil, 0o600))
	for name, c := range map[string]struct{ content, says string }{
		"no interpreter is named":             {"echo ran\n", "exec format error: it is a script without #! in its first line"},
		"empty":                               {"", "exec format error"},
		"the interpreter is missing":          {"#!/no/such/sh -e\necho ran\n", `its interpreter "/no/such/sh": no such file or directory`},
		"lines end as on Windows":             {"#!/bin/sh\r\necho ran\r\n", `its interpreter "/bin/sh\r": no such file or directory`},
		"the interpreter is no program":       {"#!" + plain + "\n", "permission denied"},
		"the interpreter is a directory":      {"#!" + dir + "\n", "is a directory"},
		"the interpreter is such a script":    {"#! " + write("wrong", "#!/no/such/sh\n") + "\n", `its interpreter "/no/such/sh"`},
		"the interpreter is itself":           {"#!" + filepath.Join(dir, "the interpreter is itself") + "\n", "cannot run"},
		"for another machine":                 {string(foreign), "exec format error"},
		"the header is cut":                   {string(program[:70]), "exec format error"},
		"a program is cut behind its headers": {string(program[:len(program)/2]), "the file is damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := write(name, c.content)
			for _, command := range []string{"run", "elect"} {
				status, stdout, stderr := clitest.Run(t, []string{"127.0.0.1:1"}, command, "--name", "x", "--quiet", "--", path)
				assert.Equal(t, cli.ExitNotExecutable, status, stderr)
				assert.Empty(t, stdout)
				assert.Contains(t, stderr, "redlock: cannot run "+path)
				assert.Contains(t, stderr, c.says)
				assert.NotContains(t, stderr, "no quorum")
			}
		})
	}
}

func TestTryingACommandRunsNothingOfIt(t *testing.T) {
	t.Parallel()
	ran := filepath.Join(t.TempDir(), "ran")
	status, _, stderr := clitest.Run(t, []string{"127.0.0.1:1"}, line("x", "--wait 100ms", "sh", "-c", "echo ran >"+ran)...)
	assert.Equal(t, cli.ExitNoQuorum, status, stderr)
	assert.NoFileExists(t, ran)
}

// Nobody did the work of the period, so somebody else may.
func TestAMinimumHoldIsGivenUpIfNothingRan(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 1)
	path := filepath.Join(t.TempDir(), "job")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"), 0o700))
	holder := hold(t, c.URLs(), "x", "")
	r := clitest.Start(t, c.URLs(), line("x", patient+"--at-least 50s", path)...)
	clitest.WaitFor(t, "it waits", func() bool { return c.Waiting(t, "x") > 0 })
	require.NoError(t, os.Remove(path))
	release(t, holder)
	status, stderr := r.End(t)
	assert.Equal(t, cli.ExitNotExecutable, status)
	assert.Contains(t, stderr, "redlock: cannot run "+path)
	release(t, hold(t, c.URLs(), "x", "--no-wait"))
}
