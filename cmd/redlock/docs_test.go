package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/redquorum/redquorum/cmd/redlock/internal/doctor"
	"github.com/redquorum/redquorum/cmd/redlock/internal/elect"
	"github.com/redquorum/redquorum/cmd/redlock/internal/run"
)

// commandLine matches a call of redlock at the start of a line, after the fields of a crontab, or
// in a unit.
var commandLine = regexp.MustCompile(`(?m)^(?:\S+ \S+ \S+ \S+ \S+ +root |ExecStart=)?redlock (.*)$`)

// examples returns the arguments of all command lines in the documentation and in the help texts.
func examples(t *testing.T) (lines []string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/command.md")
	if err != nil {
		t.Fatal(err)
	}
	for i, block := range strings.Split(string(text), "```") {
		if i%2 == 1 {
			lines = append(lines, matches(block)...)
		}
	}
	for _, cmd := range newRoot().Commands() {
		var unindented strings.Builder
		for line := range strings.Lines(cmd.Example) {
			unindented.WriteString(strings.TrimSpace(line) + "\n")
		}
		lines = append(lines, matches(unindented.String())...)
	}
	return lines
}

func matches(text string) (lines []string) {
	for _, m := range commandLine.FindAllStringSubmatch(text, -1) {
		lines = append(lines, m[1])
	}
	return lines
}

func TestCommandLinesOfTheDocumentationParse(t *testing.T) {
	lines := examples(t)
	if len(lines) < 20 {
		t.Errorf("found %d command lines only: %q", len(lines), lines)
	}
	for _, text := range lines {
		if strings.Contains(text, "[flags]") {
			continue // a synopsis
		}
		before, _, _ := strings.Cut(text, " | ")
		args := strings.Fields(before)
		cmd, rest, err := newRoot().Find(args)
		if err != nil || cmd.Name() == "redlock" {
			t.Errorf("%q: no such command (%v)", text, err)
			continue
		}
		if err := cmd.ParseFlags(rest); err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if cmd.Args != nil {
			if err := cmd.Args(cmd, cmd.Flags().Args()); err != nil {
				t.Errorf("%q: %v", text, err)
			}
		}
	}
	// The Kubernetes example is a list.
	text, err := os.ReadFile("../../docs/command.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, found := strings.Cut(string(text), `command: ["redlock", "run", `)
	list, _, _ = strings.Cut(list, "]")
	cmd := run.NewCommand()
	if err := cmd.ParseFlags(strings.Split(strings.ReplaceAll(list, `"`, ""), ", ")); !found || err != nil {
		t.Errorf("the example for Kubernetes: found %v, %v", found, err)
	}
	if got, want := cmd.Flags().Args(), []string{"php", "cron.php"}; !slices.Equal(got, want) {
		t.Errorf("the command of the example for Kubernetes: got %q, want %q", got, want)
	}
}

// Every flag of run is in its table, and every row is a flag, with the default that it has.
func TestEveryFlagIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/command.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, cmd := range []*cobra.Command{run.NewCommand(), elect.NewCommand(), newInspectCommand(), newListCommand(), newTopCommand(), newUnlockCommand(), doctor.NewCommand(), newInitCommand()} {
		for word := range strings.FieldsSeq(cmd.Flags().FlagUsages()) {
			if strings.HasPrefix(word, "--") && !strings.Contains(string(text), strings.TrimRight(word, ".,:;)")) {
				t.Errorf("%s %s is not in docs/command.md", cmd.Name(), word)
			}
		}
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `--([a-z-]+)` \\|(?: ([0-9a-z]+) \\|)?").FindAllStringSubmatch(string(text), -1) {
		flag := run.NewCommand().Flags().Lookup(m[1])
		if flag == nil {
			t.Errorf("docs/command.md: run has no flag --%s", m[1])
		} else if m[2] != "" && flag.DefValue != m[2] {
			t.Errorf("docs/command.md: --%s: got the default %s, want %s", m[1], m[2], flag.DefValue)
		}
	}
}

func TestEveryHelpTextHasAnExample(t *testing.T) {
	for _, cmd := range newRoot().Commands() {
		if !strings.Contains(cmd.Example, "redlock "+cmd.Name()) {
			t.Errorf("%s: no example of itself", cmd.Name())
		}
	}
}

func TestCompletionsAreThere(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if status, stdout, _ := line("completion", shell); status != 0 || !strings.Contains(stdout, "redlock") {
			t.Errorf("%s: got status %d and %d bytes", shell, status, len(stdout))
		}
	}
}
