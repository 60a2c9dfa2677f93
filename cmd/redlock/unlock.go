package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/masters"
	"github.com/redquorum/redquorum/redlock"
)

func newUnlockCommand() *cobra.Command {
	var nodes masters.Flags
	var force, asJSON bool
	cmd := &cobra.Command{
		Use:   "unlock --force NAME [flags]",
		Short: "Delete a lock, whoever holds it",
		Long: `unlock deletes a lock on every master, whoever holds it. Use it for a holder that is known to be
gone and whose TTL is too long to wait for. A holder that is not gone learns of it at its next
renewal, a third of its TTL later at the latest. Until then it continues, and a second holder may
have begun. Hence --force.

It prints what was held. A master that is away keeps the lock until its TTL ends. Of a semaphore, it
deletes one permit: give the name of that, such as NAME#1. A shared lock ends for all of its readers.

It deletes no key that does not expire or is no string: that is no lock, but somebody's data.

Exit status: 0 if a majority of the masters no longer holds the lock; 1 if it is no lock; 69 if too
few answer; 64 without --force.`,
		Example: `  redlock inspect nightly
  redlock unlock --force nightly`,
		Args: oneName("unlock"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !force {
				return cli.Usagef("unlock deletes a lock although its holder may be at work, and a second holder could begin " +
					"at once; see who holds it with redlock inspect, and give --force if the holder is gone")
			}
			return unlock(cmd, &nodes, args[0], asJSON)
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "yes, delete the lock")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print what was held as one JSON object, as inspect does")
	nodes.Add(cmd)
	return cmd
}

func unlock(cmd *cobra.Command, nodes *masters.Flags, name string, asJSON bool) error {
	locker, err := openToAsk(cmd, nodes)
	if err != nil {
		return err
	}
	defer locker.Close() //nolint:errcheck // it holds no locks
	write := writeInspection
	if asJSON {
		write = cli.WriteJSON[inspection]
	}
	// Delete the lock even if its status is unknown: the error of the deletion says more.
	told, err := inspect(cmd.Context(), locker, name)
	if len(told.status.Nodes) == 0 {
		return withStatus(err)
	}
	if err := checkIsLock(nodes.KeyPrefix+name, &told.status); err != nil {
		return err
	}
	before := told.inspection()
	if before.Kind == kindSemaphore && before.Verdict == "free" {
		return errors.Join(write(cmd.OutOrStdout(), before), cli.Usagef(
			"%q is a semaphore: give the name of one of its permits, such as %q", name, before.Permits[0].Name))
	}
	err = locker.ForceUnlock(cmd.Context(), name)
	before.released = err == nil
	if failed := write(cmd.OutOrStdout(), before); err != nil || failed != nil {
		return errors.Join(withStatus(err), failed)
	}
	if asJSON {
		return nil
	}
	result := "Released: the next client can acquire it."
	switch {
	case before.Verdict != "free":
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
