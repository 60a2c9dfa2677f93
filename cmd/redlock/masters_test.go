package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/masters"
)

func TestWrongEndpointsAreUsageErrorsWithoutThePassword(t *testing.T) {
	dir := t.TempDir()
	empty, large := filepath.Join(dir, "empty"), filepath.Join(dir, "large")
	if os.WriteFile(empty, []byte("# none\n"), 0o600) != nil || os.WriteFile(large, make([]byte, 64<<10+1), 0o600) != nil {
		t.Fatal("cannot write files")
	}
	spaced, wrong := filepath.Join(dir, "spaced"), filepath.Join(dir, "wrong")
	if os.WriteFile(spaced, []byte("# masters\na:1 # one\nredis://:secret@b:1 c:1\n"), 0o600) != nil ||
		os.WriteFile(wrong, []byte("a:1,c:1\nb:#no\n"), 0o600) != nil {
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
		{"redis://:secret@", []string{"inspect", "x"}, "REDLOCK_NODES[1]: "},
		{"redis://:secret@", []string{"doctor"}, "REDLOCK_NODES[1]: "},
		{"redis://a:1 redis://:secret@b:1", []string{"doctor"}, "REDLOCK_NODES[1]: a space inside an endpoint: they are separated by commas"},
		{"c:1,a:1 b:1", []string{"list"}, "REDLOCK_NODES[2]: a space inside an endpoint"},
		{"a:1,password=secret", []string{"list"}, "REDLOCK_NODES[2]: the host is neither"},
		{"a:1:secret", []string{"list"}, "REDLOCK_NODES[1]: neither host:port"},
		{"secret:a:1", []string{"list"}, "REDLOCK_NODES[1]: neither host:port"},
		{"a:secret", []string{"list"}, "REDLOCK_NODES[1]: the port is not"},
		{"\"redis://:secret@a:1\"", []string{"list"}, "REDLOCK_NODES[1]: an endpoint has no quotes"},
		{"REDLOCK_NODES=redis://:secret@a:1", []string{"list"}, "REDLOCK_NODES[1]: give the endpoint alone"},
		{"a:1 secret", []string{"list"}, "REDLOCK_NODES[1]: a space"},
		{"a:1/secret", []string{"list"}, "REDLOCK_NODES[1]: neither host:port"},
		{"", []string{"run", "--name", "x", "--nodes", "redis://:secret@a:b", binary}, "--nodes[1]: "},
		{"a:1,b:99999", []string{"inspect", "x"}, `REDLOCK_NODES[2] "b:99999": the port is not`},
		{"", []string{"unlock", "--force", "x", "--nodes", "a:1", "--nodes-file", empty}, "only one of them"},
		{"", []string{"doctor", "--nodes-file", empty}, "--nodes-file: no endpoint"},
		{"", []string{"doctor", "--nodes-file", large}, "is larger than"},
		{"", []string{"doctor", "--nodes-file", filepath.Join(dir, "none")}, "--nodes-file: open"},
		{"", []string{"doctor", "--nodes", "a:1,a:1"}, "are the same server"},
		{"", []string{"doctor", "--nodes-file", spaced}, "--nodes-file, line 3: a space inside an endpoint"},
		{"", []string{"inspect", "x", "--nodes-file", wrong}, "--nodes-file, line 2: neither host:port"},
		{"a:1", []string{"doctor", "redis://:secret@a:1"}, "takes no arguments"},
		{"a:1", []string{"inspect", "x", "redis://:secret@a:1"}, "the name of one lock"},
		{"a:1", []string{"redis://:secret@a:1"}, "there is no such command"},
		{"a:1", []string{"inspect", "redis://:secret@a:1"}, "the name of a lock is wanted"},
		{"a:1", []string{"run", "--name", "Redis://:secret@a:1", "true"}, "the name of a lock is wanted"},
		{"a:1", []string{"elect", "--name", "rediss://:secret@a:1", "true"}, "the name of a lock is wanted"},
		{"a:1", []string{"run", "--name", "x", "-psecret", "true"}, "unknown flag -p"},
		{"", []string{"doctor", "--nodes-file", "redis://:secret@a:1"}, "--nodes-file: open redis://…@a:1"},
		{"a:1,default:12345678", []string{"list"}, "REDLOCK_NODES[2]: the port is not"},
		{"a:1", []string{"doctor", "-nredis://:secret@a:1"}, "it is not shown"},
	} {
		t.Setenv(masters.Variable, c.env)
		status, stdout, stderr := line(c.args...)
		if status != cli.ExitUsage || stdout != "" || !strings.Contains(stderr, c.want) || strings.Contains(stderr, "secret") {
			t.Errorf("%q: got status %d, stdout %q, stderr %q; want %d and %q", c.args, status, stdout, stderr, cli.ExitUsage, c.want)
		}
	}
}
