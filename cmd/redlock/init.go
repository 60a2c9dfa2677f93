package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/masters"
	"github.com/redquorum/redquorum/cmd/redlock/internal/terminal"
	"github.com/redquorum/redquorum/internal/prose"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

func newInitCommand() *cobra.Command {
	var nodes masters.Flags
	var force bool
	cmd := &cobra.Command{
		Use:   "init [flags]",
		Short: "Let new masters vote at once",
		Long: `init is your word that no lock is held. It makes masters vote at once that would otherwise wait
until every lock they may have forgotten has expired: those that belong to no cluster yet become one,
whose locks have a TTL of --max-ttl at most. All of its masters must be there for that; add a missing
one later, with redlock members add. A new cluster with all of its masters needs no init, unless its
clients use QuarantineStrict (--strict).

It does not ask for confirmation. If a lock is held after all, the next client can get it too, and
both work at the same time. A master that was in use and lost its keys looks new to clients that
never met it: stop all clients first, or wait for --max-ttl.

With --force, masters that are known to have lost their keys vote at once too. And if no majority of
their cluster is left, the masters of the list that are there become a new cluster. Locks may have
been forgotten, so this is safe only if everything that takes locks from these masters is stopped.
Otherwise wait.

It prints a line for each master, and changes nothing on those that vote already.

Exit status: 0 if all masters that answer vote, and they are a majority; 1 if one that answers does
not, or the MaxTTL of the cluster is not the --max-ttl that was given; 69 if too few answer; 64 for
a wrong command line.`,
		Example: `  redlock doctor
  redlock init
  redlock init --force --nodes redis://a:6379,redis://b:6379,redis://c:6379`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			operator, err := nodes.OpenToChange(cmd)
			if err != nil {
				return err
			}
			defer operator.Close() //nolint:errcheck // it holds no locks
			result, err := initialize(cmd.Context(), operator, force)
			if err != nil {
				return err
			}
			if err := terminal.Print(cmd.OutOrStdout(), result.text()); err != nil {
				return err
			}
			if cmd.Flags().Changed("max-ttl") && result.maxTTL != 0 && result.maxTTL != nodes.MaxTTL {
				return fmt.Errorf("the MaxTTL of the cluster is %v: redlock members max-ttl %v changes it", result.maxTTL, nodes.MaxTTL)
			}
			if status := result.status(); status != 0 {
				return cli.StatusError{Status: status}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "also masters that are known to have lost their keys; first stop everything that takes locks")
	nodes.Add(cmd)
	return cmd
}

// initialization is the result for each master.
type initialization struct {
	nodes   []initialized
	members int           // masters of which a quorum is a majority
	askable bool          // --force could make more of them vote
	timed   bool          // time makes more of them vote
	maxTTL  time.Duration // of the cluster; 0 if it is not known
}

type initialized struct {
	endpoint string
	before   bool  // it voted already
	err      error // why it does not vote; nil if it does
}

func initialize(ctx context.Context, operator *admin.Operator, force bool) (result initialization, err error) {
	operator.AwaitVotes(ctx)
	for _, n := range operator.Stats().Nodes {
		result.nodes = append(result.nodes, initialized{endpoint: n.Endpoint, before: admin.Votes(&n)})
	}
	err = initAndForm(ctx, operator, force)
	stats := operator.Stats()
	result.members = stats.Members
	result.timed = slices.ContainsFunc(stats.Nodes, func(n redlock.NodeStats) bool { return n.QuarantinedFor > 0 })
	if m, err := operator.Cluster().Members(ctx); err == nil {
		result.maxTTL = m.MaxTTL
	}
	var failure *redlock.QuorumError
	ok := errors.As(err, &failure)
	if !ok {
		return result, err
	}
	for _, node := range failure.Nodes {
		for i := range result.nodes {
			if result.nodes[i].endpoint == node.Endpoint {
				result.nodes[i].err = node.Err
			}
		}
		result.askable = result.askable || !force && errors.Is(node, pool.ErrQuarantined)
	}
	return result, nil
}

// initAndForm calls Init until the masters that are there vote by a list of members, if they can.
func initAndForm(ctx context.Context, operator *admin.Operator, force bool) error {
	for range formTries {
		err := operator.Init(ctx, force)
		stats := operator.Stats()
		forms := stats.Cluster == "" && !slices.ContainsFunc(stats.Nodes, func(n redlock.NodeStats) bool {
			return n.State != pool.Up || n.Memory != "active" || n.Barred == nil
		})
		if err == nil || !forms || !clock.Sleep(ctx, clock.System(), formPause) {
			return err
		}
	}
	return operator.Init(ctx, force)
}

// A cluster is formed in a moment, but another client may be in between.
const (
	formTries = 10
	formPause = 100 * time.Millisecond
)

func (r *initialization) voting() (masters int) {
	for _, n := range r.nodes {
		if n.err == nil {
			masters++
		}
	}
	return masters
}

func (r *initialization) quorum() int { return r.members/2 + 1 }

// status returns the exit status.
func (r *initialization) status() int {
	answering := 0
	for _, n := range r.nodes {
		if n.answers() {
			answering++
		}
	}
	switch {
	case answering < r.quorum():
		return cli.ExitNoQuorum
	case r.voting() < answering:
		return cli.ExitFailed
	default:
		return 0
	}
}

// answers reports whether there is a server, whatever it answers.
func (n *initialized) answers() bool {
	return n.err == nil || errors.Is(n.err, pool.ErrQuarantined) || errors.Is(n.err, pool.ErrRefused) || errors.Is(n.err, pool.ErrAuth)
}

// text has a line for each master, and how many vote.
func (r *initialization) text() []string {
	width := 0
	for _, n := range r.nodes {
		width = max(width, len(n.endpoint))
	}
	var lines []string
	for _, n := range r.nodes {
		what := "votes now"
		switch {
		case n.err != nil:
			what = "does not vote: " + prose.Readable(n.err.Error())
		case n.before:
			what = "voted already"
		}
		lines = append(lines, fmt.Sprintf("%-*s  %s", width, n.endpoint, what))
	}
	hint := ""
	switch {
	case r.askable && r.timed:
		hint = " A master in quarantine votes when its time is over; for --force, see redlock init --help."
	case r.askable:
		hint = " For --force, see redlock init --help."
	}
	return append(lines, "", fmt.Sprintf("Voting: %d of %s, %s.%s", r.voting(), prose.Plural(r.members, "master"), prose.Needed(r.quorum()), hint))
}
