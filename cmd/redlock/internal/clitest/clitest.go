// Package clitest runs commands of redlock in tests: in this process, or as processes of their own.
package clitest

import (
	"bytes"
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
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// RoleVariable makes a test binary play another part than that of the tests: redlock itself, or a
// command that redlock runs.
const RoleVariable = "REDLOCK_TEST_ROLE"

// Main runs the tests, or the role that the environment names: redlock with the commands of root,
// or else a part of play.
func Main(m *testing.M, root func() *cobra.Command, play func(part string, args []string) int) {
	switch role := os.Getenv(RoleVariable); role {
	case "":
		search.RunMore(4)
		os.Exit(m.Run())
	case "redlock":
		os.Exit(cli.Execute(root(), os.Args[1:], os.Stdout, os.Stderr))
	default:
		os.Exit(play(role, os.Args[1:]))
	}
}

// Root returns a redlock that has only this command.
func Root(cmd *cobra.Command) *cobra.Command {
	root := &cobra.Command{Use: "redlock"}
	root.AddCommand(cmd)
	return root
}

// Line runs a command line in this process.
func Line(root *cobra.Command, args ...string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	status = cli.Execute(root, args, &out, &errs)
	return status, out.String(), errs.String()
}

// Process returns a process that is redlock with these masters. It is killed when the test ends.
func Process(t *testing.T, urls []string, args ...string) *exec.Cmd {
	t.Helper()
	binary, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(binary, args...)
	cmd.Env = append(os.Environ(), RoleVariable+"=redlock", masters.Variable+"="+strings.Join(urls, ","))
	cmd.WaitDelay = Patience // a grandchild may keep a pipe open
	t.Cleanup(func() {
		if cmd.Process != nil && cmd.ProcessState == nil {
			_ = cmd.Process.Kill() //nolint:errcheck // it may have ended
			_ = cmd.Wait()         //nolint:errcheck // killed
		}
	})
	return cmd
}

// Run runs redlock as a process until it ends.
func Run(t *testing.T, urls []string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	cmd := Process(t, urls, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	require.NoError(t, cmd.Start())
	return Await(t, cmd), out.String(), errs.String()
}

// Await waits until a process ends, and returns its status.
func Await(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	late := time.AfterFunc(Patience, func() { _ = cmd.Process.Kill() }) //nolint:errcheck // the test fails below
	err := cmd.Wait()
	if !late.Stop() {
		t.Fatalf("%q did not end within %v", cmd.Args[1:], Patience)
	}
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode()
}

// Patience bounds every wait for a process. No wait comes near it unless something is wrong.
const Patience = 30 * time.Second

// WaitFor waits until a condition holds.
func WaitFor(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(Patience); !condition(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", Patience, what)
		}
	}
}

// StartServers starts masters that vote at once, and returns their endpoints too.
func StartServers(t *testing.T, n int) (servers []*redistest.Server, urls []string) {
	t.Helper()
	servers, urls = StartNewServers(t, n)
	Admit(t, urls...)
	return servers, urls
}

// StartNewServers starts masters as they are in a new cluster: they vote once all of them are
// known to be new, or after a quarantine.
func StartNewServers(t *testing.T, n int) (servers []*redistest.Server, urls []string) {
	t.Helper()
	servers = redistest.Start(t, n)
	return servers, URLs(servers)
}

// URLs returns the endpoints of servers or proxies.
func URLs[T interface{ URL() string }](nodes []T) (urls []string) {
	for _, n := range nodes {
		urls = append(urls, n.URL())
	}
	return urls
}

// Admit makes masters vote that were just started, like those of a cluster that has been used.
func Admit(t *testing.T, urls ...string) {
	t.Helper()
	l, err := redlock.New(urls, redlock.WithTTL(10*time.Millisecond), redlock.WithMaxTTL(10*time.Millisecond))
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	WaitFor(t, "the votes of all masters", func() bool {
		for _, n := range l.Stats().Nodes {
			if n.State != pool.Up || n.Barred != nil {
				return false
			}
		}
		return true
	})
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
