package cli

import (
	"github.com/spf13/cobra"

	"github.com/redquorum/redquorum/cmd/redlock/internal/terminal"
	"github.com/redquorum/redquorum/internal/prose"
)

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

// NoArguments accepts none. What was given is not shown: it may be an endpoint with a password.
func NoArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return Usagef("%s takes no arguments; give the endpoints of masters to --nodes", cmd.Name())
	}
	return nil
}
