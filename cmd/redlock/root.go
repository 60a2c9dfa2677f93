package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// Exit statuses that all commands share.
const (
	exitFailed = 1 // what was asked for did not come about
	exitUsage  = 2 // what was asked for makes no sense; nothing was done
)

// usageError is an error of the person who typed the command.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// execute runs the command line and returns the exit status.
func execute(args []string, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	command, err := root.ExecuteContextC(context.Background())
	if err == nil {
		return 0
	}
	text := fmt.Sprintf("redlock: %s\n", strings.TrimPrefix(err.Error(), "redlock: ")) // which errors of the library begin with
	status := exitStatus(err)
	if status == exitUsage {
		text += fmt.Sprintf("See %q.\n", command.CommandPath()+" --help")
	}
	if _, err := io.WriteString(stderr, text); err != nil {
		return max(status, exitFailed) // nobody is left to be told
	}
	return status
}

func exitStatus(err error) int {
	var usage usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &usage):
		return exitUsage
	default:
		return exitFailed
	}
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "redlock",
		Short: "Failover-safe locks over independent Redis masters",
		Long: `redlock holds locks on a majority of independent Redis masters (Redlock), so that the loss of
a minority of them is not noticed and never gives a lock to two holders.

Exit status: 0 when it went well, 1 when it did not, 2 when the command line makes no sense.`,
		Example: `  redlock demo                 see it work; nothing need be installed
  redlock help demo`,
		Args:                       knownCommand,
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceErrors:              true, // execute tells them
		SilenceUsage:               true,
		SuggestionsMinimumDistance: 2,
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(newDemoCommand(), newVersionCommand())
	return root
}

// knownCommand refuses what is left on the line when no command matched it.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return usagef("there is no command %q; did you mean %s?", args[0], strings.Join(near, " or "))
	}
	return usagef("there is no command %q", args[0])
}
