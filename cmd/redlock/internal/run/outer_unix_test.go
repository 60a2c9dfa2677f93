//go:build unix

package run

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

// inside returns a line that runs another redlock, which says its status.
func inside(outer string, inner string) []string {
	redlock := strings.Join(clitest.As("redlock"), " ")
	return append(strings.Fields(outer), "sh", "-c", redlock+" "+inner+"; echo $?")
}

// The lock is not given up before the inner one has ended, which would wait for that.
func TestALockThatIsHeldForTheCommandIsRefusedToIt(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 1)
	const itself = "held by a redlock around this one"
	for name, r := range map[string]struct{ outer, inner string }{
		"run in run":              {"run --name a --wait 1m --", "run --name a echo no"},
		"with another in between": {"run --name c --wait 1m --", "run --name c2 -- " + strings.Join(clitest.As("redlock"), " ") + " run --name c echo no"},
		"run in elect":            {"elect --name d --", "run --name d echo no"},
		"elect in run":            {"run --name e --wait 1m --", "elect --name e --quiet echo no"},
		"writer in its reader":    {"run --name f --shared --wait 1m --", "run --name f echo no"},
		"reader in its writer":    {"run --name g --wait 1m --", "run --name g --shared echo no"},
		"the last permit":         {"run --name h --permits 1 --wait 1m --", "run --name h --permits 1 echo no"},
		"left running":            {"run --name i --wait 1m --", "run --name i echo no & wait"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status, stdout, stderr := run(t, c.URLs(), inside(r.outer, r.inner)...)
			assert.Equal(t, 0, status, stderr)
			if name != "left running" {
				assert.Equal(t, "64\n", stdout, stderr)
			}
			assert.Contains(t, stderr, itself)
		})
	}
}

// It would skip its work for ever, and never say so.
func TestASkipInsideItsOwnLockIsNoSuccess(t *testing.T) {
	t.Parallel()
	inner := "run --name x --no-wait --conflict-exit-code 0 --quiet echo no"
	status, stdout, stderr := run(t, cluster.Start(t, 1).URLs(), inside("run --name x --wait 1m --", inner)...)
	assert.Equal(t, 0, status, stderr)
	assert.Equal(t, "64\n", stdout)
	assert.Contains(t, stderr, "held by a redlock around this one")
}

func TestALockBesideThatOfTheCommandIsNotRefused(t *testing.T) {
	t.Parallel()
	c, other := cluster.Start(t, 1), cluster.Start(t, 1)
	for name, r := range map[string]struct{ outer, inner string }{
		"of another name":      {"run --name a --wait 1m --", "run --name a2 --wait 1m -- echo ran"},
		"of another prefix":    {"run --name b --wait 1m --", "run --name b --key-prefix b: --wait 1m -- echo ran"},
		"of another cluster":   {"run --name c --wait 1m --", "run --name c --nodes " + strings.Join(other.URLs(), ",") + " --wait 1m -- echo ran"},
		"a reader in a reader": {"run --name d --shared --wait 1m --", "run --name d --shared --wait 1m -- echo ran"},
		"another permit":       {"run --name e --permits 2 --wait 1m --", "run --name e --permits 2 --wait 1m -- echo ran"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status, stdout, stderr := run(t, c.URLs(), inside(r.outer, r.inner)...)
			assert.Equal(t, 0, status, stderr)
			assert.Equal(t, "ran\n0\n", stdout, stderr)
		})
	}
}

// It waits for the second writer, who waits for the first reader, whose command waits for it. On a
// busy machine the writer may be too late to keep readers out, and one passes.
func TestAReaderBehindAWriterInItsReaderIsRefused(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 1)
	redlock := strings.Join(clitest.As("redlock"), " ")
	reader := clitest.Start(t, c.URLs(), line("x", patient+"--shared", "sh", "-c", "read go; until "+redlock+" run --name x --shared true; s=$?; [ $s != 0 ]; do :; done; echo $s")...)
	clitest.WaitFor(t, "it reads", func() bool { return !inspect(t, c.URLs(), "x").Free })
	writer := clitest.Start(t, c.URLs(), line("x", patient, "echo", "wrote")...)
	clitest.WaitFor(t, "a writer waits", func() bool { return c.Waiting(t, "x") > 0 })
	require.NoError(t, reader.Tell("go"))
	assert.Equal(t, "64", reader.Next(t))
	assert.Equal(t, "wrote", writer.Next(t))
}

// However they were named, and without what is in a file.
func TestARedlockInTheCommandKnowsTheMasters(t *testing.T) {
	t.Parallel()
	urls := cluster.Start(t, 1, redistest.WithPassword("sesame")).URLs()
	file := filepath.Join(t.TempDir(), "nodes")
	require.NoError(t, os.WriteFile(file, []byte(strings.Join(urls, "\n")), 0o600))
	const elsewhere = "REDLOCK_NODES=127.0.0.1:1"
	for i, r := range []struct {
		flags string
		env   []string
		tells bool // the password
	}{
		{"", nil, true},
		{"--nodes " + strings.Join(urls, ","), []string{elsewhere, "REDLOCK_CERT=/no/such"}, true},
		{"--nodes-file " + file, []string{elsewhere}, false},
		{"", []string{"REDLOCK_NODES=", "REDLOCK_NODES_FILE=" + file}, false},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			outer := fmt.Sprintf("run --name %d --wait 1m %s --", i, r.flags)
			cmd := clitest.Command(urls, inside(outer, fmt.Sprintf("run --name in%d --wait 1m -- env", i))...)
			cmd.Env = append(cmd.Env, r.env...)
			var stdout bytes.Buffer
			cmd.Stdout = &stdout
			status, stderr := clitest.StartCommand(t, cmd).End(t)
			assert.Equal(t, 0, status, stderr)
			assert.Contains(t, stdout.String(), fmt.Sprintf("REDLOCK_NAME=in%d\n", i), stderr)
			assert.Equal(t, r.tells, strings.Contains(stdout.String(), "sesame"), stdout.String())
		})
	}
}
