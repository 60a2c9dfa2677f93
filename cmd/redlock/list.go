package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/admin/survey"
	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/masters"
	"github.com/redquorum/redquorum/cmd/redlock/internal/tables"
	"github.com/redquorum/redquorum/cmd/redlock/internal/terminal"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

func newListCommand() *cobra.Command {
	var nodes masters.Flags
	var output cli.Output
	var owner string
	query := admin.Query{Keys: 100_000, Locks: 1000, Bound: listBound}
	cmd := &cobra.Command{
		Use:   "list [PATTERN] [flags]",
		Short: "Tell which locks there are, and who holds them",
		Long: `list looks for locks on every master, and tells of each what inspect tells: who holds it, for how
long, and how many wait. PATTERN is one of Redis (* ? [a-z] \), and matches the names behind the
prefix. With --owner it lists what those have whose whole owner matches (* ? only), as '*@host7:*'. It
changes no lock, and makes no new master vote.

Where too few masters answer, nobody can know who holds a lock. What a master has is then listed with
a ? behind its holder: it is probably held.

A lock is a string that expires. Keys that do not expire, are larger than the value of any lock, or
are no strings are counted, and not listed.

It asks each master with SCAN, up to a thousand keys at a time, until it has looked at --scan keys
or found --limit locks; then it says so. If a minority of the masters is down, every lock that is
held is listed all the same. The user needs the commands scan and strlen.

With --json, locks has what inspect prints, complete says that no held lock is missing, and left_out
counts names (lasting, large, other_type, forbidden). Of a master: keys looked at, locks found,
bounded by --scan or --limit.

Exit status: 0; 1 if the user may not list; 69 if too few masters answer; 64 for a wrong command
line.`,
		Example: `  redlock list
  redlock list 'orders/*' --key-prefix app:
  redlock list --owner 'deploy@host7:*'
  redlock list --json | jq '.locks[].name'`,
		Args: func(_ *cobra.Command, args []string) error { return onePattern("list", args) },
		RunE: func(cmd *cobra.Command, args []string) error {
			operator, err := openToList(cmd, &nodes, masters.AskTimeout)
			if err != nil {
				return err
			}
			defer operator.Close() //nolint:errcheck // it holds no locks
			query.Pattern = patternOf(args)
			told, err := operator.Scan(cmd.Context(), query)
			list := survey.ListingOf(&told, owner)
			text := func(look terminal.Look) []string { return tables.Listing(&list, look) }
			if err := output.Write(cmd, list, text); err != nil {
				return err
			}
			if err := failure(&list); err != nil {
				return err
			}
			return withStatus(err)
		},
	}
	output.Add(cmd)
	cmd.Flags().StringVar(&owner, "owner", "", "list what holders have whose owner matches this `pattern`")
	addBounds(cmd, &query)
	nodes.Add(cmd)
	return cmd
}

// addBounds adds the flags that limit a scan.
func addBounds(cmd *cobra.Command, bounds *admin.Query) {
	cmd.Flags().IntVar(&bounds.Keys, "scan", bounds.Keys, "look at so `many` keys of each master at most")
	cmd.Flags().IntVar(&bounds.Locks, "limit", bounds.Locks, "stop when a master has so `many` locks")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if bounds.Keys < 1 || bounds.Locks < 1 {
			return cli.Usagef("--scan and --limit are 1 or more")
		}
		return nil
	}
}

// onePattern accepts one pattern or none. It never shows what else it was given.
func onePattern(command string, args []string) error {
	if len(args) > 1 || len(args) == 1 && args[0] == "" {
		return cli.Usagef("%s takes one pattern at most (quote it: the shell has patterns too); "+
			"give the endpoints of masters to --nodes", command)
	}
	return nil
}

func patternOf(args []string) string {
	if len(args) == 0 {
		return "*"
	}
	return args[0]
}

// failure returns why a majority was not listed, with its exit status; nil if one was.
func failure(l *survey.Listing) error {
	err := l.Failure()
	if errors.Is(err, survey.ErrTooFew) {
		return cli.StatusError{Status: cli.ExitNoQuorum, Err: err}
	}
	return err
}

// listBound bounds a list: what is known by then is told.
const listBound = time.Minute

// openToList connects to the masters, and waits until it is known whose votes count. An answer has
// the timeout.
func openToList(cmd *cobra.Command, flags *masters.Flags, timeout time.Duration) (*admin.Operator, error) {
	reached := redlock.WithPool(pool.WithClientName("redlock-"+cmd.Name()), pool.WithDialTimeout(timeout), pool.WithStallTimeout(timeout))
	operator, err := flags.OpenToAsk(cmd, redlock.WithNodeTimeout(timeout), reached)
	if err != nil {
		return nil, err
	}
	operator.AwaitMembers(cmd.Context())
	return operator, nil
}
