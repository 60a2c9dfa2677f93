// Package cli is what the commands of redlock share: exit statuses, the errors that lead to them,
// and how results are written.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/redquorum/redquorum/cmd/redlock/internal/terminal"
	"github.com/redquorum/redquorum/internal/prose"
)

// Execute runs a command line, prints the error if there is one, and returns the exit status.
func Execute(root *cobra.Command, args []string, stdout, stderr io.Writer) int {
	root.SilenceErrors, root.SilenceUsage = true, true // errors are printed here
	root.SetFlagErrorFunc(flagError)
	fitHelp(root)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	refuseMistyped(root)
	command, err := root.ExecuteContextC(context.Background())
	if err == nil {
		return 0
	}
	var printed StatusError
	if errors.As(err, &printed) && printed.Err == nil {
		return printed.Status
	}
	text := fmt.Sprintf("redlock: %s\n", Explain(err))
	status := ExitStatus(err)
	if status == ExitUsage {
		text += fmt.Sprintf("See %q.\n", command.CommandPath()+" --help")
	}
	if _, err := io.WriteString(stderr, text); err != nil {
		return max(status, ExitFailed) // nobody is left to tell
	}
	return status
}

// refuseMistyped makes usage errors of what cobra lets pass: a flag that is the value of another
// one, help for no command, and completion for no shell.
func refuseMistyped(root *cobra.Command) {
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return swallowed(cmd) }
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "help":
			cmd.Args = func(_ *cobra.Command, args []string) error {
				found, rest, err := root.Find(args)
				if err != nil || found != root || root.Args == nil {
					return err
				}
				return root.Args(root, rest)
			}
		case "completion":
			cmd.Args = cobra.ArbitraryArgs
			cmd.RunE = func(cmd *cobra.Command, args []string) error {
				if len(args) > 0 {
					return Usagef("there is no completion for %q", args[0])
				}
				return cmd.Help()
			}
		}
	}
}

// swallowed returns an error if the value of a flag is another flag: --name $JOB --no-wait with an
// empty variable would wait for a lock with the name "--no-wait".
func swallowed(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		name, isFlag := strings.CutPrefix(f.Value.String(), "--")
		name, _, _ = strings.Cut(name, "=")
		if isFlag && f.Value.Type() == "string" && (name == "" || cmd.Flags().Lookup(name) != nil) {
			err = Usagef("--%s has the value %q, which is a flag: is a variable empty?", f.Name, f.Value)
		}
	})
	return err
}

// helpWidth is that of the smallest usual terminal.
const helpWidth = 80

// fitHelp makes the help of all commands fit in a terminal.
func fitHelp(root *cobra.Command) {
	wrapped := fmt.Sprintf(".FlagUsagesWrapped %d |", helpWidth)
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages |", wrapped))
	show := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		cmd.Long = rewrap(cmd.Long)
		show(cmd, args)
	})
}

// rewrap wraps the paragraphs of a text. Indented lines stay as they are.
func rewrap(text string) string {
	var lines, paragraph []string
	end := func() {
		lines, paragraph = append(lines, terminal.Wrap(strings.Join(paragraph, " "), helpWidth)...), nil
	}
	for line := range strings.SplitSeq(text, "\n") {
		if line == "" || line[0] == ' ' || line[0] == '\t' {
			end()
			lines = append(lines, line)
			continue
		}
		paragraph = append(paragraph, line)
	}
	end()
	return strings.Join(lines, "\n")
}

// Output is how a command writes what it found out: as text, or with --json as one JSON object.
type Output struct{ JSON bool }

// Add adds the flag to a command.
func (o *Output) Add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.JSON, "json", false, "print one JSON object")
}

// Write writes a value, or the text that describes it.
func (o *Output) Write(cmd *cobra.Command, value any, text func(terminal.Look) []string) error {
	if o.JSON {
		return prose.WriteJSON(cmd.OutOrStdout(), value)
	}
	return terminal.Print(cmd.OutOrStdout(), text(terminal.LookOf(cmd.OutOrStdout())))
}

// UntilSignal returns a context that ends with SIGINT or SIGTERM. A second signal ends the process
// at once.
func UntilSignal(cmd *cobra.Command) (ctx context.Context, stop context.CancelFunc) {
	ctx, stop = signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// NoArguments accepts none. What was given is not shown: it may be an endpoint with a password.
func NoArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return Usagef("%s takes no arguments; give the endpoints of masters to --nodes", cmd.Name())
	}
	return nil
}
