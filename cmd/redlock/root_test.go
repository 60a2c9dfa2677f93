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
