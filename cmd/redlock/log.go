package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/admin/survey"
	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/masters"
	"github.com/redquorum/redquorum/cmd/redlock/internal/tables"
	"github.com/redquorum/redquorum/cmd/redlock/internal/terminal"
	"github.com/redquorum/redquorum/redlock"
)

const logLong = `log shows what the masters have noted of locks, whatever their prefix: those that somebody took away
from their holders (redlock unlock --force, ForceUnlock), with the reason, and those that their
holders lost; and which masters became members, or were removed, and how MaxTTL changed. Times are
those of the clocks of the processes that noted them.

With a name, it shows the history of that lock, semaphore or election: who had it, from when on and
for how long, with the exit status of the command (ran), who has it or died with it (began; with an
exit status, the command has ended, and what it left running has the lock), who was ended by
--max-hold (cut), lost it (lost) or had it taken away (forced), with the reason; and who wanted it and
did not get it, because somebody else had it (refused: HOLDER has it), too few masters answered
(no-quorum), or otherwise (missed). run and elect note it, and programs that ask for it (WithHistory).

Each master keeps the newest 256 entries, at most 256 KiB, for 90 days; and for each key prefix 256
histories, of the names that were used last, each with the newest 64 entries of runs and 64 others,
for 30 days. An entry may be missing: no lock waits for the log, a process notes eight losses a minute
and counts the others, and a change whose operator died in the middle is finished by others, who do
not note it.

With --json, complete says that a majority answered, and time_ms counts from 1970. In a history,
began_ms is from when on somebody had the lock, or asked for it; since_ms is when the holder asked for
it, by its clock; status is an exit status; and times says how many attempts an entry tells of.

Exit status: 0; 69 if too few masters answer, and entries may be missing; 64 for a wrong command
line.`

func newLogCommand() *cobra.Command {
	var nodes masters.Flags
	var output cli.Output
	var since time.Duration
	limit := 50
	cmd := &cobra.Command{
		Use:   "log [NAME] [flags]",
		Short: "Tell what became of locks, of members, or of NAME",
		Long:  logLong,
		Example: `  redlock log
  redlock log nightly --since 24h
  redlock log --json | jq '.events[] | select(.kind == "forced")'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return oneName("log")(nil, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 1 {
				return cli.Usagef("--limit is 1 or more")
			}
			from := time.Time{}
			if since < 0 {
				return cli.Usagef("--since: %v is negative", since)
			} else if since > 0 {
				from = clock.System().Wall().Add(-since)
			}
			operator, err := nodes.OpenToAsk(cmd)
			if err != nil {
				return err
			}
			defer operator.Close() //nolint:errcheck // it holds no locks
			operator.AwaitVotes(cmd.Context())
			ask, table := operator.Log, tables.Events
			if len(args) > 0 {
				ask, table = func(ctx context.Context) ([]admin.Entry, error) { return operator.History(ctx, args[0]) }, tables.History
			}
			log, err := ask(cmd.Context())
			if errors.Is(err, redlock.ErrInvalid) { // of a name: no master was asked
				return withStatus(err)
			}
			told := survey.EventsOf(log, err)
			told.Newest(limit, from)
			return errors.Join(withStatus(err), output.Write(cmd, told, func(terminal.Look) []string { return table(&told) }))
		},
	}
	output.Add(cmd)
	cmd.Flags().IntVar(&limit, "limit", limit, "show the newest `many` at most")
	cmd.Flags().DurationVar(&since, "since", 0, "show what was noted in the last `duration` only (default: all)")
	nodes.Add(cmd)
	return cmd
}
