package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/redquorum/redquorum/admin/survey"
	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/masters"
	"github.com/redquorum/redquorum/cmd/redlock/internal/tables"
	"github.com/redquorum/redquorum/cmd/redlock/internal/terminal"
)

func newLogCommand() *cobra.Command {
	var nodes masters.Flags
	var output cli.Output
	limit := 50
	cmd := &cobra.Command{
		Use:   "log [flags]",
		Short: "Tell which locks were taken or lost, and how members changed",
		Long: `log shows what the masters have noted of locks, whatever their prefix: those that somebody took away
from their holders (redlock unlock --force, ForceUnlock), with the reason, and those that their
holders lost; and which masters became members, or were removed, and how MaxTTL changed. Times are
those of the clocks of the processes that noted them.

Each master keeps the newest 256 entries, at most 256 KiB, for 90 days. An entry may be missing: no
lock waits for the log, a process notes eight losses a minute and counts the others, and a change
whose operator died in the middle is finished by others, who do not note it. With --json, complete
says that a majority answered, and time_ms counts from 1970.

Exit status: 0; 69 if too few masters answer, and entries may be missing; 64 for a wrong command
line.`,
		Example: `  redlock log
  redlock log --json | jq '.events[] | select(.kind == "forced")'`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 {
				return cli.Usagef("--limit is 1 or more")
			}
			operator, err := nodes.OpenToAsk(cmd)
			if err != nil {
				return err
			}
			defer operator.Close() //nolint:errcheck // it holds no locks
			operator.AwaitVotes(cmd.Context())
			log, err := operator.Log(cmd.Context())
			told := survey.EventsOf(log[max(len(log)-limit, 0):], err)
			return errors.Join(withStatus(err), output.Write(cmd, told, func(terminal.Look) []string { return tables.Events(&told) }))
		},
	}
	output.Add(cmd)
	cmd.Flags().IntVar(&limit, "limit", limit, "show the newest `many` at most")
	nodes.Add(cmd)
	return cmd
}
