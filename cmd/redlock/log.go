package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/masters"
	"github.com/redquorum/redquorum/internal/journal"
	"github.com/redquorum/redquorum/internal/prose"
	"github.com/redquorum/redquorum/internal/survey"
)

func newLogCommand() *cobra.Command {
	var nodes masters.Flags
	var asJSON bool
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
whose operator died in the middle is finished by others, who do not note it.

Exit status: 0; 69 if too few masters answer, and entries may be missing; 64 for a wrong command
line.`,
		Example: `  redlock log
  redlock log --json | jq '.events[] | select(.kind == "forced")'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 { // not shown: it may be an endpoint with a password
				return cli.Usagef("log takes no arguments; give the endpoints of masters to --nodes")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 {
				return cli.Usagef("--limit is 1 or more")
			}
			locker, err := openToAsk(cmd, &nodes)
			if err != nil {
				return err
			}
			defer locker.Close() //nolint:errcheck // it holds no locks
			survey.AwaitVotes(cmd.Context(), clock.System(), locker)
			entries, err := locker.Journal(journal.Key{}).Read(cmd.Context())
			entries = entries[max(len(entries)-limit, 0):]
			write := writeEvents
			if asJSON {
				write = prose.WriteJSON[survey.Events]
			}
			told := survey.Events{Complete: err == nil, Events: append([]journal.Entry{}, entries...)}
			return errors.Join(withStatus(err), write(cmd.OutOrStdout(), told))
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	cmd.Flags().IntVar(&limit, "limit", limit, "show the newest `many` at most")
	nodes.Add(cmd)
	return cmd
}

// writeEvents writes a line for each entry. What others may have stored is shown, and not obeyed.
func writeEvents(w io.Writer, told survey.Events) error {
	if len(told.Events) == 0 {
		_, err := fmt.Fprintln(w, "The log is empty.")
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	rows := []string{"TIME\tWHAT\tLOCK\tHOLDER\tBY\tWHY\n"}
	for _, e := range told.Events {
		row := []string{time.UnixMilli(e.Millis).UTC().Format(time.RFC3339)}
		for _, text := range []string{e.Kind, e.Key, e.Holder, e.By, e.Why} {
			row = append(row, cmp.Or(prose.Printable(text), "-"))
		}
		rows = append(rows, strings.Join(row, "\t")+"\n")
	}
	_, err := io.WriteString(table, strings.Join(rows, ""))
	return errors.Join(err, table.Flush())
}
