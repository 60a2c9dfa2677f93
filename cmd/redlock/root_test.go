package main

import (
	"runtime/debug"
	"strings"
	"testing"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/terminal"
)

func TestUnknownCommandIsAUsageErrorWithASuggestion(t *testing.T) {
	status, _, stderr := line("dmo")
	if status != cli.ExitUsage || !strings.Contains(stderr, "did you mean demo?") {
		t.Errorf("got status %d and %q, want %d and a suggestion", status, stderr, cli.ExitUsage)
	}
}

func TestMistypedLinesAreUsageErrors(t *testing.T) {
	for text, want := range map[string]string{
		"rnu --name x -- true":              "did you mean run?",
		"nothing --name x":                  `there is no command "nothing"`,
		"help dmo":                          "did you mean demo?",
		"completion bahs":                   `there is no completion for "bahs"`,
		"run --name --no-wait -- true":      `--name has the value "--no-wait", which is a flag: is a variable empty?`,
		"run --name --wait=5m -- true":      "is a variable empty?",
		"run --name -- true":                "is a variable empty?",
		"run --name x --owner --quiet true": "is a variable empty?",
		"elect --name --ttl 9s -- true":     "is a variable empty?",
	} {
		status, stdout, stderr := line(strings.Fields(text)...)
		if status != cli.ExitUsage || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%q: got status %d, stdout %q, stderr %q, want %d and %q", text, status, stdout, stderr, cli.ExitUsage, want)
		}
	}
	if status, stdout, _ := line("completion"); status != 0 || stdout == "" {
		t.Errorf("completion: got status %d and %q", status, stdout)
	}
}

func TestHelpGoesToStdout(t *testing.T) {
	for _, args := range [][]string{{}, {"--help"}, {"help", "demo"}, {"demo", "-h"}} {
		status, stdout, stderr := line(args...)
		if status != 0 || stderr != "" || !strings.Contains(stdout, "redlock demo --duration") && !strings.Contains(stdout, "redlock help run") {
			t.Errorf("%q: got status %d, stderr %q, stdout %q; want 0, nothing, an example", args, status, stderr, stdout)
		}
	}
}

// A line that is longer is broken in the middle of a word.
func TestHelpFitsIn80Columns(t *testing.T) {
	names := [][]string{{}, {"completion"}, {"completion", "bash"}}
	for _, cmd := range newRoot().Commands() {
		names = append(names, []string{cmd.Name()})
	}
	for _, name := range names {
		_, stdout, _ := line(append(name, "--help")...)
		if !strings.Contains(stdout, "\nFlags:\n") {
			t.Errorf("%q: got no flags: %q", name, stdout)
		}
		for text := range strings.Lines(stdout) {
			if columns := terminal.Columns(strings.TrimRight(text, "\n")); columns > 80 {
				t.Errorf("%q: %d columns: %s", name, columns, text)
			}
		}
	}
}

func TestVersionSaysWhatTheBuildKnows(t *testing.T) {
	for _, c := range []struct {
		info debug.BuildInfo
		want string
	}{
		{debug.BuildInfo{}, "redlock"},
		{debug.BuildInfo{GoVersion: "go1.26.0", Main: debug.Module{Version: "v1.2.3"}}, "redlock v1.2.3 go1.26.0"},
		{
			debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: []debug.BuildSetting{
				{Key: "vcs.revision", Value: "abc"},
				{Key: "vcs.modified", Value: "true"},
			}},
			"redlock (devel) commit abc (modified)",
		},
	} {
		if got := versionText(&c.info); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
	if status, stdout, _ := line("version"); status != 0 || !strings.HasPrefix(stdout, "redlock ") {
		t.Errorf("got status %d and %q, want 0 and a version", status, stdout)
	}
}

// A list with spaces between the endpoints makes commands of them.
func TestEndpointInPlaceOfACommandShowsNoPassword(t *testing.T) {
	status, _, stderr := line("run", "--name", "x", "--nodes", "redis://:secret@a:1", "redis://u:sec@ret@b:1", "redis://:secret@c:1")
	if status != cli.ExitNotFound || strings.Contains(stderr, "sec") || !strings.Contains(stderr, "redis://…@b:1") {
		t.Errorf("got status %d and %q", status, stderr)
	}
}
