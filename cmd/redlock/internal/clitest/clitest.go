// Package clitest runs commands of redlock in tests: in this process, or as processes of their own.
package clitest

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/masters"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/internal/proof/search"
	"github.com/redquorum/redquorum/internal/proof/servers/child"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/redlock"
)

// A test sees the variables for redlock that it sets itself, and a child those of its parent:
// whoever runs the tests may well have REDLOCK_NODES set, run them under a lock, or want no color.
func init() {
	if os.Getenv(child.RoleVariable) != "" {
		return
	}
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "REDLOCK_") || name == "COLUMNS" || name == "NO_COLOR" {
			if err := os.Unsetenv(name); err != nil {
				panic(err)
			}
		}
	}
}

// Main runs the tests, or plays a part if this is a child process: redlock with the commands of
// root, or one of the roles.
func Main(m *testing.M, root func() *cobra.Command, roles map[string]child.Role) {
	parts := map[string]child.Role{"redlock": func(self *child.Self) {
		os.Exit(cli.Execute(root(), self.Args, os.Stdout, os.Stderr))
	}}
	maps.Copy(parts, roles)
	child.Play(parts)
	search.RunMore(16) // they wait for the ends of locks
	os.Exit(m.Run())
}

// As returns a command line that plays a part, for redlock to run.
func As(part string, args ...string) []string {
	return append([]string{"env", child.RoleVariable + "=" + part, os.Args[0]}, args...)
}

// Root returns a redlock that has only these commands.
func Root(cmds ...*cobra.Command) *cobra.Command {
	root := &cobra.Command{Use: "redlock"}
	root.AddCommand(cmds...)
	return root
}

// Line runs a command line in this process.
func Line(root *cobra.Command, args ...string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	status = cli.Execute(root, args, &out, &errs)
	return status, out.String(), errs.String()
}

// Command returns the command that is redlock with these masters.
func Command(urls []string, args ...string) *exec.Cmd {
	cmd := child.Command("redlock", args...)
	cmd.Env = append(cmd.Env, masters.Variable+"="+strings.Join(urls, ","))
	cmd.WaitDelay = 30 * time.Second // a grandchild may keep a pipe open
	return cmd
}

// Redlock is a process that is redlock. The test has its input and output.
type Redlock struct {
	*child.Process
	stderr *bytes.Buffer
}

// Start starts redlock with these masters.
func Start(t *testing.T, urls []string, args ...string) *Redlock {
	t.Helper()
	return StartCommand(t, Command(urls, args...))
}

// StartCommand starts a command that is redlock, or runs it.
func StartCommand(t *testing.T, cmd *exec.Cmd) *Redlock {
	t.Helper()
	r := &Redlock{stderr: &bytes.Buffer{}}
	cmd.Stderr = r.stderr
	r.Process = child.Start(t, cmd)
	return r
}

// End waits until redlock ends, and returns its status and what it wrote to stderr.
func (r *Redlock) End(t *testing.T) (status int, stderr string) {
	t.Helper()
	status = r.Wait(t)
	return status, r.stderr.String()
}

// Run runs redlock as a process until it ends.
func Run(t *testing.T, urls []string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	cmd := Command(urls, args...)
	var out bytes.Buffer
	cmd.Stdin, cmd.Stdout = strings.NewReader(""), &out
	status, stderr = StartCommand(t, cmd).End(t)
	return status, out.String(), stderr
}

// WaitFor waits until a condition holds.
func WaitFor(t *testing.T, what string, condition func() bool) {
	t.Helper()
	cluster.Eventually(t, time.Minute, func() string {
		if condition() {
			return ""
		}
		return what
	})
	if t.Failed() {
		t.FailNow()
	}
}

// URLs returns the endpoints of servers or proxies.
func URLs[T interface{ URL() string }](nodes []T) (urls []string) {
	for _, n := range nodes {
		urls = append(urls, n.URL())
	}
	return urls
}

// Admit makes masters vote that were just started: they become a cluster.
func Admit(t *testing.T, urls ...string) {
	t.Helper()
	l, err := redlock.New(urls)
	require.NoError(t, err)
	cluster.RequireUp(t, l, func(n redlock.NodeStats) bool { return n.Barred == nil })
	require.NoError(t, l.Close())
}

// Marker returns the memory marker of a server.
func Marker(t *testing.T, s *redistest.Server) string {
	t.Helper()
	marker, err := redis.String(s.Do("GET", pipeline.MemoryKey))
	if err != nil {
		require.ErrorIs(t, err, redis.ErrNil)
	}
	return marker
}
