//go:build unix

package tasks

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/queue/backlog"
)

func TestMain(m *testing.M) {
	clitest.Main(m, func() *cobra.Command { return clitest.Root(NewCommand()) }, nil)
}

// place is a queue with its servers.
type place struct {
	*testing.T
	urls  []string
	store *redistest.Server
}

func newPlace(t *testing.T) *place {
	t.Helper()
	t.Parallel()
	p := &place{t, cluster.Start(t, 3).URLs(), redistest.StartOne(t)}
	clitest.Admit(t, p.urls...)
	return p
}

// line returns a command line below queue.
func (p *place) line(what string, args ...string) []string {
	return append([]string{"queue", what, "jobs", "--store", p.store.URL()}, args...)
}

// does runs a command that succeeds, and returns what it prints.
func (p *place) does(what string, args ...string) string {
	p.Helper()
	status, stdout, stderr := clitest.Run(p.T, p.urls, p.line(what, args...)...)
	require.Zero(p, status, stderr)
	return stdout
}

func (p *place) look() (v backlog.Status) {
	p.Helper()
	require.NoError(p, json.Unmarshal([]byte(p.does("list", "--json")), &v))
	return v
}

// works starts a worker whose command is a line of the shell.
func (p *place) works(script string, flags ...string) *clitest.Redlock {
	p.Helper()
	flags = append(flags, "--backoff", "1ms", "--", "sh", "-c", script)
	return clitest.Start(p.T, p.urls, p.line("run", flags...)...)
}

// ends has a worker end, and expects 0.
func (p *place) ends(worker *clitest.Redlock) (stderr string) {
	p.Helper()
	require.NoError(p, syscall.Kill(worker.Pid(), syscall.SIGTERM))
	status, stderr := worker.End(p.T)
	assert.Zero(p, status, stderr)
	return stderr
}

func TestACommandIsRunForEachTaskUntilItIsDoneOrDead(t *testing.T) {
	p := newPlace(t)
	p.does("add", "good", "--payload", "what to do")
	p.does("add", "bad", "later", "--delay", "1h")
	_, err := p.store.Do("ZADD", "Queue:jobs", 1, "bad") // as a program in PHP may
	require.NoError(t, err)
	worker := p.works(`read -r text; echo "$REDLOCK_TASK_ID $REDLOCK_TASK_ATTEMPT $text"
		echo "why $REDLOCK_TASK_ID" >&2; test "$REDLOCK_TASK_ID" != bad`, "--max-attempts", "2")
	var said []string
	for range 3 {
		said = append(said, worker.Next(t))
	}
	assert.ElementsMatch(t, []string{"good 1 what to do", "bad 1 ", "bad 2 "}, said)
	clitest.WaitFor(t, "bad is dead", func() bool { return p.look().Dead == 1 })
	stderr := p.ends(worker)
	assert.Contains(t, stderr, `task "bad", attempt 2: exit status 1: why bad (it was the last)`)

	v := p.look()
	assert.Equal(t, []int{1, 0, 0, 1}, []int{v.Waiting, v.Due, v.Running, v.Dead})
	require.Len(t, v.Letters[0].Errors, 2)
	assert.Equal(t, "exit status 1: why bad", v.Letters[0].Errors[0].Text)
	text := p.does("list")
	assert.Contains(t, text, "1 waiting, 0 due, 0 running, 1 dead\n")
	assert.Regexp(t, `(?m)^bad +\S+Z +2  exit status 1: why bad$`, text)

	assert.Equal(t, "put back 1 dead letter\n", p.does("retry", "--all"))
	assert.Equal(t, []backlog.Task{{ID: "bad", Due: p.look().Tasks[0].Due}}, p.look().Tasks)
	assert.Equal(t, "removed 2 tasks\n", p.does("remove", "bad", "later", "nobody"))
	assert.Equal(t, "removed 0 dead letters\n", p.does("remove", "--dead", "bad"))
	assert.Equal(t, backlog.Status{Queue: "jobs", Tasks: []backlog.Task{}, Letters: []backlog.Letter{}}, p.look())
}

// A worker that is killed has its commands die with it, and has used up an attempt. So has a
// command that takes longer than its lease.
func TestACommandThatDiesWithItsWorkerOrItsLeaseHasUsedAnAttempt(t *testing.T) {
	p := newPlace(t)
	p.does("add", "a")
	pidFile := filepath.Join(t.TempDir(), "pid")
	script := `echo $$ >'` + pidFile + `.new'; mv '` + pidFile + `.new' '` + pidFile + `'; trap '' TERM; echo began; while :; do sleep 0.1; done`
	flags := []string{"--max-attempts", "2", "--lease", "3s", "--kill-after", "500ms"}
	first := p.works(script, flags...)
	require.Equal(t, "began", first.Next(t))
	require.NoError(t, first.Kill())
	text, err := os.ReadFile(pidFile)
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	if runtime.GOOS == "linux" { // elsewhere the kernel may not
		clitest.WaitFor(t, "its command has died", func() bool { return syscall.Kill(pid, 0) != nil })
	}
	second := p.works(script, flags...)
	require.Equal(t, "began", second.Next(t))
	clitest.WaitFor(t, "it is dead", func() bool { return p.look().Dead == 1 })
	v := p.look()
	assert.Equal(t, 2, v.Letters[0].Attempts)
	require.NotEmpty(t, v.Letters[0].Errors)
	p.ends(second)
}

func TestWhatAQueueIsNotToldIsAUsageError(t *testing.T) {
	for _, c := range []struct{ line, says string }{
		{"queue add", "needs the name of a queue"},
		{"queue add jobs", "needs ids"},
		{"queue add redis://:secret@a:1 x", "give the endpoints of masters"},
		{"queue remove jobs", "needs ids"},
		{"queue retry jobs", "needs ids, or --all"},
		{"queue retry jobs a --all", "needs ids, or --all"},
		{"queue list jobs more", "one queue"},
		{"queue list jobs --limit 0", "--limit"},
		{"queue list jobs --limit 1", "which store?"},
		{"queue run jobs", "needs -- and a command"},
		{"queue run jobs true", "behind --"},
		{"queue run jobs x -- true", "behind --"},
		{"queue run jobs --store a:1 --kill-after 1m -- true", "--kill-after"},
		{"queue run jobs --store a:1 --max-attempts 0 -- true", "1 is the least"},
		{"queue add jobs x --store redis://:secret@a:b", "store"},
		{"queue add jobs x --store a:1 --delay -1s", "delay"},
		{"queue add jobs x --store a:1 --payload a --payload-stdin", "only one"},
		{"queue nothing jobs", "add, list, remove, retry or run"},
	} {
		words := strings.Fields(c.line)
		if len(words) > 3 { // nobody is there, and nobody is asked
			words = slices.Insert(words, 3, "--nodes", "127.0.0.1:1")
		}
		status, _, stderr := clitest.Line(clitest.Root(NewCommand()), words...)
		assert.Equal(t, cli.ExitUsage, status, c.line)
		assert.Contains(t, stderr, c.says, c.line)
		assert.NotContains(t, stderr, "secret", c.line)
	}
}
