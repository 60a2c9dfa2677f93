// Package members is `redlock members`: it shows the list of masters by which votes count, and
// changes it.
package members

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/masters"
	"github.com/redquorum/redquorum/redlock"
)

const long = `members shows the masters of a cluster: those of which a majority makes a quorum, whatever list a
client was given. The masters keep the list themselves. Below it stands what is wrong with the list
of this command line (--nodes, REDLOCK_NODES): members that it lacks, masters that are no members,
masters of another cluster.

The list can be changed while locks are held, by one member at a time. A change begins when every
lock has ended that may have begun before the last one, so k changes take k-1 times the MaxTTL of
the cluster. On stderr the command says what it waits for. Ctrl-C is harmless, and so is a second
operator: the same command goes on where another one stopped. docs/operations.md has the steps for
replacing masters.

With --json, next_ms is until another change is possible, state is votes, no vote or down, list is
what is wrong with yours (check: missing, foreign, other_cluster, unknown), and changes and takes_ms
are those of --dry-run.

Exit status: 0; 1 if the change is not possible; 69 if too few members answer; 64 for a wrong
command line; 128 plus the number of the signal if it was interrupted.`

const example = `  redlock members
  redlock members add redis://d:6379
  redlock members remove redis://c:6379
  redlock members replace c3rx2q redis://d:6379
  redlock members max-ttl 2m
  redlock members --json | jq '.members[].endpoint'`

// flags are those of members and of each change.
type flags struct {
	nodes  masters.Flags
	output cli.Output
	dryRun bool
}

// NewCommand returns `redlock members`.
func NewCommand() *cobra.Command {
	f := &flags{}
	cmd := &cobra.Command{
		Use:     "members [flags]",
		Short:   "Show and change the list of masters by which votes count",
		Long:    long,
		Example: example,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 { // not shown: it may be an endpoint with a password
				return cli.Usagef("members takes no arguments but add, remove, replace and max-ttl; give the endpoints of masters to --nodes")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.open(cmd, true, func(ctx context.Context, operator *admin.Operator) error {
				m, err := operator.Cluster().Members(ctx)
				if err != nil {
					return failure(err, operator)
				}
				stats := operator.Stats()
				v := viewOf(&m, &stats)
				return f.output.Write(cmd, v, v.text)
			})
		},
	}
	f.add(cmd)
	for _, c := range changes {
		cmd.AddCommand(c.command())
	}
	return cmd
}

func (f *flags) add(cmd *cobra.Command) {
	f.output.Add(cmd)
	f.nodes.Add(cmd)
}

// change is a command that changes the list.
type change struct {
	use, short, long string
	args             int
	adds, removes    bool   // a member
	wants            string // what it takes
	plan             func(m *admin.Membership, args []string) ([]step, error)
}

var changes = []change{
	{
		use: "add ENDPOINT", short: "Make a master a member", args: 1, adds: true, wants: "the endpoint of one master",
		long: `add makes a master a member. The master must be new, or have been removed from this cluster. Every
member must know the last change before: remove one that is down first. It ends when the new master
votes and all members know of it.`,
		plan: func(m *admin.Membership, args []string) ([]step, error) { return planAdd(m, args[0]) },
	},
	{
		use: "remove MEMBER", short: "Remove a member, also a dead one", args: 1, wants: "the ID or the endpoint of one member",
		long: `remove removes a member, named by its ID or endpoint, whether it is up or not. It ends when all
other members know of it. Of two members, both must be up.`,
		plan: func(m *admin.Membership, args []string) ([]step, error) { return planRemove(m, args[0]) },
	},
	{
		use: "replace MEMBER ENDPOINT", short: "Put a master in the place of a member", args: 2, adds: true, removes: true, wants: "the ID or the endpoint of one member, and the endpoint of the master for its place",
		long: `replace adds a master, waits, and removes a member. A member that does not vote is removed first: to
add one, all must know the last change. Given again, it goes on where another process stopped.

A member that lost its disk and comes back at the same address needs no replacement: it votes again
after a quarantine.`,
		plan: func(m *admin.Membership, args []string) ([]step, error) { return planReplace(m, args[0], args[1]) },
	},
	{
		use: "max-ttl DURATION", short: "Set the longest TTL of the cluster's locks", args: 1, wants: "one duration, as 30s, 5m or 4h",
		long: `max-ttl sets the longest TTL that a lock of the cluster may have, from 10ms to 24h. Longer locks are
refused, and a master that forgot what it granted has no vote for that long.`,
		plan: func(m *admin.Membership, args []string) ([]step, error) { return planMaxTTL(m, args[0]) },
	},
}

func (c *change) command() *cobra.Command {
	f := &flags{}
	cmd := &cobra.Command{
		Use:   c.use + " [flags]",
		Short: c.short,
		Long:  c.long + "\n\nExit status: as redlock members.",
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) != c.args {
			return cli.Usagef("%s takes %s; give the endpoints of the other masters to --nodes", cmd.Name(), c.wants)
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if _, err := c.plan(&admin.Membership{}, args); cli.ExitStatus(err) == cli.ExitUsage {
			return err // before anybody is asked
		}
		return f.open(cmd, f.dryRun, func(ctx context.Context, operator *admin.Operator) error { return f.run(ctx, cmd, operator, c, args) })
	}
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "say what would be done, and change nothing")
	f.add(cmd)
	return cmd
}

// open opens an operator, who makes no new master vote, and waits until it is known which masters
// vote. One who only looks changes nothing by itself.
func (f *flags) open(cmd *cobra.Command, looks bool, do func(context.Context, *admin.Operator) error) error {
	open := f.nodes.OpenToChange
	if looks {
		open = f.nodes.OpenToAsk
	}
	operator, err := open(cmd)
	if err != nil {
		return err
	}
	defer operator.Close() //nolint:errcheck // it holds no locks
	operator.AwaitVotes(cmd.Context())
	return do(cmd.Context(), operator)
}

var errByList = errors.New("the user may not read redquorum:memory and redquorum:members, so there is no list to show: " +
	"votes count by the endpoints of each client; redlock doctor has the rule that allows it")

// failure gives an error its exit status.
func failure(err error, operator *admin.Operator) error {
	if !errors.Is(err, redlock.ErrNoQuorum) {
		return cli.InvalidUsage(err)
	}
	if stats := operator.Stats(); stats.Cluster == "" && admin.CountVotes(stats.Nodes) >= stats.Quorum {
		return errByList
	}
	return cli.StatusError{Status: cli.ExitNoQuorum, Err: err}
}
