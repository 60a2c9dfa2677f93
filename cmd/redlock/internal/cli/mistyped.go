package cli

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

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
