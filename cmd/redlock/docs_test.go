package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/redquorum/redquorum/cmd/redlock/internal/doctor"
	"github.com/redquorum/redquorum/cmd/redlock/internal/elect"
	"github.com/redquorum/redquorum/cmd/redlock/internal/run"
	"github.com/redquorum/redquorum/internal/proof/docs"
)

// root is the folder with the documentation.
const root = "../.."

var (
	// commandLine matches a call of redlock at the start of a line, behind a prompt, sudo, or the
	// fields of a crontab, or in a unit.
	commandLine = regexp.MustCompile(`(?m)^(?:\$ |sudo |\S+ \S+ \S+ \S+ \S+ +root |ExecStart=)?redlock ([a-z-][^\n]*)$`)

	// list matches a call of redlock as a list of strings, as Kubernetes has it.
	list = regexp.MustCompile(`\["redlock", ([^\]]*)\]`)

	// program matches a call of redlock by the go command.
	program = regexp.MustCompile(`(?m)^go run \S*/cmd/redlock(?:@\S+)? ([^\n]*)$`)

	comment = regexp.MustCompile(`(?m) +#.*$`)
)

// calls returns the arguments of all calls of redlock in a text.
func calls(text string) (all [][]string) {
	text = comment.ReplaceAllString(strings.ReplaceAll(text, "\\\n", " "), "")
	for _, pattern := range []*regexp.Regexp{commandLine, program} {
		for _, m := range pattern.FindAllStringSubmatch(text, -1) {
			line, _, _ := strings.Cut(m[1], " | ")
			// Others are a synopsis, or what top draws.
			if !strings.Contains(line, "[flags]") && !strings.HasSuffix(line, "q quits") {
				all = append(all, strings.Fields(line))
			}
		}
	}
	for _, m := range list.FindAllStringSubmatch(text, -1) {
		all = append(all, strings.Split(strings.ReplaceAll(m[1], `"`, ""), ", "))
	}
	return all
}

// refusal returns why a command line makes no sense, or nil.
func refusal(args []string) error {
	cmd, rest, err := newRoot().Find(args)
	switch {
	case err != nil:
		return err
	case !cmd.HasParent():
		return errors.New("no such command")
	}
	if err := cmd.ParseFlags(rest); err != nil || cmd.Args == nil {
		return err
	}
	return cmd.Args(cmd, cmd.Flags().Args())
}

// strange returns why a piece of a command line makes no sense, or nil: the command exists, and has
// the flags. It need not be complete.
func strange(words []string) error {
	top := newRoot()
	top.InitDefaultCompletionCmd("completion") // only Execute adds it
	cmd, _, err := top.Find(words)
	switch {
	case err != nil:
		return err
	case !cmd.HasParent() && !strings.HasPrefix(words[0], "-"):
		return errors.New("no such command")
	}
	for _, word := range words {
		if word == "--" {
			break
		}
		name, isFlag := strings.CutPrefix(word, "--")
		name, _, _ = strings.Cut(name, "=")
		if isFlag && cmd.Flags().Lookup(name) == nil && cmd.InheritedFlags().Lookup(name) == nil {
			return fmt.Errorf("%s has no flag --%s", cmd.Name(), name)
		}
	}
	return nil
}

func TestCommandLinesOfTheDocumentationParse(t *testing.T) {
	pages, err := docs.Pages(root)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	for _, page := range pages {
		blocks, err := docs.Blocks(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range blocks {
			for _, args := range calls(block.Text) {
				found[filepath.Base(page)]++
				if err := refusal(args); err != nil {
					t.Errorf("%s:%d: redlock %q: %v", page, block.Line, args, err)
				}
			}
		}
		spans, err := docs.Spans(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, span := range spans {
			words := strings.Fields(strings.TrimPrefix(span, "sudo "))
			if len(words) < 2 || words[0] != "redlock" {
				continue
			}
			found[filepath.Base(page)]++
			if err := strange(words[1:]); err != nil {
				t.Errorf("%s: %q: %v", page, span, err)
			}
		}
	}
	for page, least := range map[string]int{"README.md": 4, "command.md": 20, "operations.md": 5} {
		if found[page] < least {
			t.Errorf("%s: found %d command lines only", page, found[page])
		}
	}
}

func TestCommandLinesOfTheHelpTextsParse(t *testing.T) {
	found := 0
	for _, cmd := range newRoot().Commands() {
		var unindented strings.Builder
		for line := range strings.Lines(cmd.Example) {
			unindented.WriteString(strings.TrimSpace(line) + "\n")
		}
		for _, args := range calls(unindented.String()) {
			found++
			if err := refusal(args); err != nil {
				t.Errorf("%s: redlock %q: %v", cmd.Name(), args, err)
			}
		}
	}
	if found < 8 {
		t.Errorf("found %d command lines only", found)
	}
}

func TestWrongCommandLinesAreFound(t *testing.T) {
	text := strings.Join([]string{
		"redlock run --name a -- php cron.php # flock(1)",
		"$ redlock ran --name a -- true",
		"*/5 * * * * root redlock run --nome a -- true",
		"ExecStart=redlock elect --name a --ttl x -- true",
		`  command: ["redlock", "run", "--name", "a", "--woit", "10m", "--", "php"]`,
		"sudo redlock inspect",
		"go run ./cmd/redlock dema",
		"redlock doctor --json \\\n  --ttl 10s | less",
		"redlock: no quorum",
	}, "\n")
	var got []string
	for _, args := range calls(text) {
		if refusal(args) != nil {
			got = append(got, args[0])
		}
	}
	if want := []string{"ran", "run", "elect", "inspect", "dema", "run"}; len(calls(text)) != 8 || !slices.Equal(got, want) {
		t.Errorf("got %q of %q, want %q", got, calls(text), want)
	}
	for span, wrong := range map[string]bool{
		"run --at-least": false, "unlock --force NAME": false, "run --ttl=3s -- x --none": false,
		"ran": true, "doctor --fast": true,
	} {
		if err := strange(strings.Fields(span)); (err != nil) != wrong {
			t.Errorf("%q: got %v", span, err)
		}
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
