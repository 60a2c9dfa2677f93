package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// endpointsOf parses flags as a command with nodes does.
func endpointsOf(t *testing.T, args ...string) ([]string, error) {
	t.Helper()
	var f nodeFlags
	cmd := &cobra.Command{}
	f.add(cmd)
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	return f.endpoints(cmd)
}

func TestEndpointsComeFromFlagsThenFromTheEnvironment(t *testing.T) {
	file := filepath.Join(t.TempDir(), "nodes")
	if err := os.WriteFile(file, []byte("# the masters\na:1\n\n  b:2, c:3\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(nodesVariable, "env:1,env:2")
	for _, c := range []struct {
		args []string
		want []string
	}{
		{nil, []string{"env:1", "env:2"}},
		{[]string{"--nodes", "a:1, b:2", "--nodes", "c:3"}, []string{"a:1", "b:2", "c:3"}},
		{[]string{"--nodes-file", file}, []string{"a:1", "b:2", "c:3"}},
	} {
		if got, err := endpointsOf(t, c.args...); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%q: got %q, %v; want %q", c.args, got, err, c.want)
		}
	}
}

func TestWrongEndpointsAreUsageErrorsWithoutThePassword(t *testing.T) {
	dir := t.TempDir()
	empty, large := filepath.Join(dir, "empty"), filepath.Join(dir, "large")
	if os.WriteFile(empty, []byte("# none\n"), 0o600) != nil || os.WriteFile(large, make([]byte, maxNodesFile+1), 0o600) != nil {
		t.Fatal("cannot write files")
	}
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		env  string
		args []string
		want string
	}{
		{"", []string{"run", "--name", "x", binary}, "which masters? Set REDLOCK_NODES"},
		{"", []string{"inspect", "x"}, "which masters? Set REDLOCK_NODES"},
		{"a:1,,b:2", []string{"inspect", "x"}, "REDLOCK_NODES: endpoint 2 of 3 is empty"},
		{"redis://:secret@", []string{"inspect", "x"}, "endpoint 1: "},
		{"redis://:secret@", []string{"doctor"}, "endpoint 1: "},
		{"", []string{"run", "--name", "x", "--nodes", "redis://:secret@a:b", binary}, "endpoint 1: "},
		{"", []string{"unlock", "--force", "x", "--nodes", "a:1", "--nodes-file", empty}, "only one of them"},
		{"", []string{"doctor", "--nodes-file", empty}, "--nodes-file: no endpoint"},
		{"", []string{"doctor", "--nodes-file", large}, "is larger than"},
		{"", []string{"doctor", "--nodes-file", filepath.Join(dir, "none")}, "--nodes-file: open"},
		{"", []string{"doctor", "--nodes", "a:1,a:1"}, "are the same server"},
		{"a:1", []string{"doctor", "redis://:secret@a:1"}, "takes no arguments"},
		{"a:1", []string{"inspect", "x", "redis://:secret@a:1"}, "the name of one lock"},
		{"a:1", []string{"redis://:secret@a:1"}, "there is no such command"},
		{"a:1", []string{"doctor", "-nredis://:secret@a:1"}, "it is not shown"},
	} {
		t.Setenv(nodesVariable, c.env)
		status, stdout, stderr := line(c.args...)
		if status != exitUsage || stdout != "" || !strings.Contains(stderr, c.want) || strings.Contains(stderr, "secret") {
			t.Errorf("%q: got status %d, stdout %q, stderr %q; want %d and %q", c.args, status, stdout, stderr, exitUsage, c.want)
		}
	}
}
