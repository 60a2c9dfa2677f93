package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/masters"
	"github.com/redquorum/redquorum/internal/journal"
	"github.com/redquorum/redquorum/redlock"
)

func newUnlockCommand() *cobra.Command {
	var nodes masters.Flags
	var force, asJSON bool
	var reason string
	cmd := &cobra.Command{
		Use:   "unlock --force --reason TEXT NAME [flags]",
		Short: "Delete a lock, whoever holds it",
		Long: `unlock deletes a lock on every master, whoever holds it. Use it for a holder that is known to be
gone and whose TTL is too long to wait for. A holder that is not gone learns of it at its next
renewal, a third of its TTL later at the latest. Until then it continues, and a second holder may
have begun. Hence --force.

It prints what was held, and by when the holder will know. The masters keep a line of it, with the
reason, which redlock log shows. A master that is away keeps the lock until its TTL ends. Of a semaphore, it
deletes one permit: give the name of that, such as NAME#1. A shared lock ends for all of its readers.

It deletes no key that does not expire or is no string: that is no lock, but somebody's data.

Exit status: 0 if a majority of the masters no longer holds the lock; 1 if it is no lock; 69 if too
few answer; 64 without --force or --reason.`,
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
			return unlock(cmd, &nodes, args[0], reason, asJSON)
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "yes, delete the lock")
	cmd.Flags().StringVar(&reason, "reason", "", "`why`, for the log of the masters (required)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print what was held as one JSON object, as inspect does")
	nodes.Add(cmd)
	return cmd
}

// release is what unlock --json prints. Its field names are documented (docs/command.md).
type release struct {
	inspection
	KnownBy string `json:"known_by"` // until then the holder may go on; empty if nobody held it
	Logged  bool   `json:"logged"`   // a majority of the masters has a line of it
}

func unlock(cmd *cobra.Command, nodes *masters.Flags, name, reason string, asJSON bool) error {
	locker, err := openToAsk(cmd, nodes)
	if err != nil {
		return err
	}
	defer locker.Close() //nolint:errcheck // it holds no locks
	write := func(w io.Writer, r release) error { return writeInspection(w, r.inspection) }
	if asJSON {
		write = cli.WriteJSON[release]
	}
	// Delete the lock even if its status is unknown: the error of the deletion says more.
	told, err := inspect(cmd.Context(), locker, name)
	if len(told.status.Nodes) == 0 {
		return withStatus(err)
	}
	if err := checkIsLock(nodes.KeyPrefix+name, &told.status); err != nil {
		return err
	}
	before := release{inspection: told.inspection()}
	if before.Kind == kindSemaphore && before.Verdict == "free" {
		return errors.Join(write(cmd.OutOrStdout(), before), cli.Usagef(
			"%q is a semaphore: give the name of one of its permits, such as %q", name, before.Permits[0].Name))
	}
	taken, err := locker.Journal(journal.Key{}).Force(cmd.Context(), name, reason)
	before.released = err == nil
	if before.Logged = err == nil && taken.Value != "" && taken.Unlogged == nil; taken.Value != "" {
		before.KnownBy = clock.System().Wall().Add(taken.Left).UTC().Format(time.RFC3339)
	}
	if failed := write(cmd.OutOrStdout(), before); err != nil || failed != nil {
		return errors.Join(withStatus(err), failed)
	}
	if taken.Unlogged != nil {
		cmd.PrintErrf("redlock: the log does not tell of this: %s\n", cli.Explain(taken.Unlogged))
	}
	if asJSON {
		return nil
	}
	result := "Released: the next client can acquire it."
	switch {
	case before.Verdict != "free":
		result += fmt.Sprintf("\nIts holder, if there still is one, knows by %s, in %v: until then it may go on.",
			before.KnownBy, taken.Left.Round(time.Second))
	case before.isThere():
		result = "Nobody held it. What was left of it is deleted."
	default:
		result = "Nothing to release."
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), result)
	return err
}

// checkIsLock returns an error if any master has something under a key that can be no lock:
// somebody else's data.
func checkIsLock(key string, status *redlock.Status) error {
	is, at := "", []string{}
	has := 0
	for _, n := range status.Nodes {
		switch {
		case cli.IsWrongType(n.Err):
			is = cli.NoString
		case n.TTL < 0:
			is = cli.Lasting
		case n.TTL > 0:
			has++
			continue
		default:
			continue
		}
		at = append(at, n.Endpoint)
	}
	if is == "" {
		return nil
	}
	where := ""
	if has > 0 {
		where = " on " + strings.Join(at, ", ")
	}
	return fmt.Errorf("%q %s%s: it is no lock of ours. If it is yours, delete it with DEL", key, is, where)
}
