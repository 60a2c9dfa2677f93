package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/cmd/redlock/internal/manual"
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
			if !strings.Contains(line, "[flags]") { // not a synopsis
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
	// Only Execute adds these.
	top.InitDefaultCompletionCmd("completion")
	top.InitDefaultHelpCmd()
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
	require.NoError(t, err)
	found := map[string]int{}
	for _, page := range pages {
		blocks, err := docs.Blocks(page)
		require.NoError(t, err)
		for _, block := range blocks {
			for _, args := range calls(block.Text) {
				found[filepath.Base(page)]++
				assert.NoError(t, refusal(args), "%s:%d: redlock %q", page, block.Line, args)
			}
		}
		spans, err := docs.Spans(page)
		require.NoError(t, err)
		for _, span := range spans {
			words := strings.Fields(strings.TrimPrefix(span, "sudo "))
			if len(words) < 2 || words[0] != "redlock" {
				continue
			}
			found[filepath.Base(page)]++
			assert.NoError(t, strange(words[1:]), "%s: %q", page, span)
		}
	}
	for page, least := range map[string]int{"README.md": 4, "command.md": 12, "operations.md": 5} {
		assert.GreaterOrEqual(t, found[page], least, page)
	}
}

func TestEveryHelpTextHasExamplesThatParse(t *testing.T) {
	for _, cmd := range newRoot().Commands() {
		assert.Contains(t, cmd.Example, "redlock "+cmd.Name())
		var unindented strings.Builder
		for line := range strings.Lines(cmd.Example) {
			unindented.WriteString(strings.TrimSpace(line) + "\n")
		}
		all := calls(unindented.String())
		assert.NotEmpty(t, all, cmd.Name())
		for _, args := range all {
			assert.NoError(t, refusal(args), "%s: redlock %q", cmd.Name(), args)
		}
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
	var wrong []string
	for _, args := range calls(text) {
		if refusal(args) != nil {
			wrong = append(wrong, args[0])
		}
	}
	assert.Len(t, calls(text), 8)
	assert.Equal(t, []string{"ran", "run", "elect", "inspect", "dema", "run"}, wrong)
	for span, wrong := range map[string]bool{
		"run --at-least": false, "unlock --force NAME": false, "run --ttl=3s -- x --none": false,
		"ran": true, "doctor --fast": true,
	} {
		assert.Equal(t, wrong, strange(strings.Fields(span)) != nil, span)
	}
}

// flagSpan matches a flag that a page names by itself.
var flagSpan = regexp.MustCompile(`^--([a-z-]+)`)

// The help has the flags, and docs/command.md names those that need more words.
func TestTheFlagsOfThePageExist(t *testing.T) {
	known := map[string]bool{}
	for _, cmd := range newRoot().Commands() {
		for _, c := range append(cmd.Commands(), cmd) {
			c.Flags().VisitAll(func(flag *pflag.Flag) {
				known[flag.Name] = true
				assert.NotEmpty(t, flag.Usage, "%s --%s", c.Name(), flag.Name)
			})
		}
	}
	spans, err := docs.Spans("../../docs/command.md")
	require.NoError(t, err)
	named := map[string]bool{}
	for _, span := range spans {
		if m := flagSpan.FindStringSubmatch(span); m != nil {
			assert.True(t, known[m[1]], span)
			named[m[1]] = true
		}
	}
	assert.GreaterOrEqual(t, len(named), 15)
}

// Every command that a user sees has a manual page, which names its flags.
func TestEveryCommandHasAManualPage(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	require.NoError(t, manual.Write(newRoot(), version(), folder))
	for _, command := range newRoot().Commands() {
		if command.Hidden {
			continue
		}
		page, err := os.ReadFile(filepath.Join(folder, "redlock-"+command.Name()+".1"))
		require.NoError(t, err)
		assert.Contains(t, string(page), command.Short)
		command.Flags().VisitAll(func(flag *pflag.Flag) {
			assert.Contains(t, string(page), "--"+flag.Name)
		})
	}
}
