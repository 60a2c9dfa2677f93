package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
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
