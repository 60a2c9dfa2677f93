package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

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
	var told statusError
	if errors.As(err, &told) && told.err == nil {
		return told.status
	}
	text := fmt.Sprintf("redlock: %s\n", explain(err))
	status := exitStatus(err)
	if status == exitUsage {
		text += fmt.Sprintf("See %q.\n", command.CommandPath()+" --help")
	}
	if _, err := io.WriteString(stderr, text); err != nil {
		return max(status, exitFailed) // nobody is left to be told
	}
	return status
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "redlock",
		Short: "Failover-safe locks over independent Redis masters",
		Long: `redlock holds locks on a majority of independent Redis masters (Redlock), so that the loss of
a minority of them is not noticed and never gives a lock to two holders.

Exit status: 0 when it went well, 1 when it did not, 64 when the command line makes no sense, 69 when too few
masters answer. "redlock run" has the status of the command that it runs, and a few of its own.`,
		Example: `  redlock demo                                  see it work; nothing need be installed
  redlock doctor                                are these masters fit for locks?
  redlock run --name nightly -- php cron.php    never two at once
  redlock inspect nightly                       who holds it?
  redlock help run`,
		Args:                       knownCommand,
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceErrors:              true, // execute tells them
		SilenceUsage:               true,
		SuggestionsMinimumDistance: 2,
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return flagError(err) })
	root.AddCommand(newDemoCommand(), newDoctorCommand(), newInitCommand(), newInspectCommand(), newRunCommand(), newUnlockCommand(), newVersionCommand())
	return root
}

// knownCommand refuses what is left on the line when no command matched it.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if mayHoldPassword(args[0]) {
		return usagef("there is no such command; give the endpoints of masters to --nodes")
	}
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return usagef("there is no command %q; did you mean %s?", args[0], strings.Join(near, " or "))
	}
	return usagef("there is no command %q", args[0])
}
