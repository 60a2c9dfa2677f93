package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/redquorum/redquorum/admin/survey"
	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/masters"
	"github.com/redquorum/redquorum/cmd/redlock/internal/tables"
	"github.com/redquorum/redquorum/cmd/redlock/internal/terminal"
)

func newUnlockCommand() *cobra.Command {
	var nodes masters.Flags
	var force bool
	var output cli.Output
	var reason string
	cmd := &cobra.Command{
		Use:   "unlock --force --reason TEXT NAME [flags]",
		Short: "Delete a lock, whoever holds it",
		Long: `unlock deletes a lock on every master, whoever holds it. Use it for a holder that is known to be
gone and whose TTL is too long to wait for. A holder that is not gone learns of it at its next
renewal, a third of its TTL later at the latest; one that does not renew, when its time ends. Until
then it continues, and a second holder may have begun. Hence --force.

It prints what was held, and by when the holder will know. The masters keep a line of it, with the
reason, which redlock log shows. A master that is away keeps the lock until its TTL ends. Of a semaphore, it
deletes one permit: give the name of that, such as NAME#1. A shared lock ends for all of its readers.

It deletes no key that does not expire or is no string: that is no lock, but somebody's data.

With --json, known_by is when the holder knows (empty if nobody held it), and logged says that a
majority has noted it.

It deletes what it prints: if somebody else gets the lock in the same moment, it stays.

Exit status: 0 if a majority of the masters no longer holds the lock; 1 if it is no lock, or another
one holds it by then; 69 if too few answer; 64 without --force or --reason, and for the name of a semaphore.`,
		Example: `  redlock inspect nightly
  redlock unlock --force --reason host7-is-gone nightly`,
		Args: oneName("unlock"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !force {
				return cli.Usagef("unlock deletes a lock although its holder may be at work, and a second holder could begin " +
					"at once; see who holds it with redlock inspect, and give --force if the holder is gone")
			}
			if strings.TrimSpace(reason) == "" {
				return cli.Usagef("give --reason: why is the lock taken from its holder? redlock log shows it to those who wonder")
			}
			return unlock(cmd, &nodes, args[0], reason, output)
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "yes, delete the lock")
	cmd.Flags().StringVar(&reason, "reason", "", "`why`, for the log of the masters (required)")
	cmd.Flags().BoolVar(&output.JSON, "json", false, "print what was held as one JSON object, as inspect does")
	nodes.Add(cmd)
	return cmd
}

func unlock(cmd *cobra.Command, nodes *masters.Flags, name, reason string, output cli.Output) error {
	operator, err := nodes.OpenToAsk(cmd)
	if err != nil {
		return err
	}
	defer operator.Close() //nolint:errcheck // it holds no locks
	r, err := survey.Force(cmd.Context(), operator, nodes.KeyPrefix, name, "", reason)
	if errors.Is(err, survey.ErrSemaphore) {
		err = cli.Usagef("%w", err)
	}
	if len(r.Nodes) == 0 {
		return withStatus(err)
	}
	text := func(terminal.Look) []string { return tables.Inspection(&r.Inspection) }
	if failed := output.Write(cmd, r, text); err != nil || failed != nil {
		return errors.Join(withStatus(err), failed)
	}
	if r.Unlogged != nil {
		cmd.PrintErrf("redlock: the log does not tell of this: %s\n", cli.Explain(r.Unlogged))
	}
	if output.JSON {
		return nil
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), r.Result())
	return err
}
