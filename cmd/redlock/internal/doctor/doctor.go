// Package doctor is `redlock doctor`: it examines whether masters are fit for locks.
package doctor

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/masters"
	"github.com/redquorum/redquorum/internal/ask"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

const (
	dialTimeout = 2 * time.Second
	// bound limits all requests to one master. Masters are examined concurrently, so it is also the
	// limit for all of them.
	bound = 8 * time.Second
)

const long = `doctor examines everything that the vote of a master depends on: whether it is a member of the
cluster by which votes count (redlock members) and is reachable and accepts
our credentials, is an independent master, keeps what it stores, can prove that it forgot nothing,
answers in time, and has the right time. It also tells which kinds of locks our user has no rights
for: fencing, semaphores, shared locks, elections. An ACL may allow some names only: --name tries the keys of
one lock, as redlock run --name uses them, and changes none of them. It writes one key per master, redquorum:doctor:*, and
deletes it. It changes no marker and no list of members: it makes no master vote, and forms no
cluster.

Each finding has a severity. An error means that the vote of this master does not count or cannot be
relied on, a warning that it works today, a note that it is good to know. These are the checks, as
--json names them. Some errors warn first: certificate 30 days before it ends, memory at nine tenths
of maxmemory, slow at a quarter of the time that a lock waits for a master, clock at 1s off ours (an
error at 5s; a warning about ours if the masters agree about another time).

  errors    unreachable, untrusted (a member that the list lacks), password,
            certificate, replica, mode (Redis Cluster, Sentinel), twin (one
            server at two endpoints), several (servers at one endpoint; a
            warning if only its addresses say so), scripts, eviction, memory,
            quarantine, member, cluster, slow, clock, permission, name
  warnings  list, ttl (above the cluster's MaxTTL), members, marker and
            unidentified (some losses go unnoticed), version, save (an error
            if it refuses writes), loading (a restart loads a part), derived
            (as in Dragonfly), number (one master)
  notes     new, persistence, replicated (a replica could be promoted behind the
            endpoint; an error if it refuses writes without one), host
            (without one host there is no majority), and fencing, semaphores,
            any, shared, elections, log, history, adopt, waiting, others
            (rights that the user lacks)

docs/troubles.md has all that can be found, and the cures. The commands of a cure stand below it, each in a line
to be pasted into redis-cli at the master, or into a shell if it begins with redlock. With --json they are
commands, and kind is the name of the trouble: there are more of them than checks.

With --json, sound counts masters without an error, memory is active, new, lost or empty, and rights
is one ACL SETUSER that allows what was refused.

Members that the list of the command line lacks are examined, too, and named.

Exit status: 0 if a majority of the members has no error; 1 if not; 64 for a wrong command line.
With --fail-on error it is 1 as soon as any master has an error, with --fail-on warning also if
there is any warning: for a monitor that is to speak before the majority is gone.`

const example = `  redlock doctor --nodes redis://a:6379,redis://b:6379,redis://c:6379
  redlock doctor --nodes-file /etc/redlock/nodes --ttl 10s
  redlock doctor --name nightly --key-prefix app:
  redlock doctor --fail-on warning
  redlock doctor --json | jq '.nodes[].findings[]'`

// NewCommand returns `redlock doctor`.
func NewCommand() *cobra.Command {
	var nodes masters.Flags
	var ttl time.Duration
	var name string
	var output cli.Output
	failOn := failOnQuorum
	cmd := &cobra.Command{
		Use:     "doctor [flags]",
		Short:   "Tell whether masters are fit for locks",
		Long:    long,
		Example: example,
		Args:    cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := nodes.CheckTTL(ttl); err != nil {
				return err
			}
			if name == "" && cmd.Flags().Changed("name") {
				return cli.Usagef("--name is empty")
			}
			dialed, err := nodes.Dial(cmd, pool.WithClientName("redlock-doctor"), pool.WithDialTimeout(dialTimeout))
			if err != nil {
				return err
			}
			d := &doctor{
				nodes: dialed, prefix: nodes.KeyPrefix, name: name,
				limits: limits{ttl, nodes.MaxTTL, nodes.Strict, nodes.KeyPrefix}, clock: clock.System(),
			}
			defer func() { masters.CloseAll(d.nodes) }()
			report, err := d.examine(cmd.Context())
			if err != nil {
				return err
			}
			if err := output.Write(cmd, report, report.text); err != nil {
				return err
			}
			if report.fails(failOn) {
				return cli.StatusError{Status: cli.ExitFailed}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "also try the keys of the lock with this `name`, and change none")
	cmd.Flags().DurationVar(&ttl, "ttl", cli.DefaultTTL, "TTL of the locks; slowness is measured against it")
	cmd.Flags().Var(&failOn, "fail-on", "also fail if any master has an error, or if there is any warning: quorum, error or warning")
	output.Add(cmd)
	nodes.Add(cmd)
	return cmd
}

// doctor examines masters.
type doctor struct {
	nodes  []*pool.Node // with a connection of their own
	prefix string
	name   string // of the lock that is tried; "" for none
	limits
	clock clock.Clock
}

// examine asks all masters concurrently and judges their answers. It returns an error only for an
// endpoint or a name that cannot be used.
func (d *doctor) examine(ctx context.Context) (diagnosis, error) {
	// A Locker knows which votes would not count, and why.
	followed, err := follow(ctx, d.nodes, redlock.WithTTL(d.ttl), redlock.WithMaxTTL(d.maxTTL),
		redlock.WithKeyPrefix(d.prefix), admin.OnlyLooks())
	d.nodes = followed.nodes
	if err != nil {
		return diagnosis{}, cli.InvalidUsage(err)
	}
	locker := followed.locker
	defer locker.Close() //nolint:errcheck // it holds no locks
	if m := followed.membership; m.Cluster != "" {
		d.maxTTL = m.MaxTTL
	}
	if d.name != "" {
		if _, err := locker.Semaphore(d.name, 1); err != nil { // as a check of the name
			return diagnosis{}, cli.InvalidUsage(err)
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, bound, fmt.Errorf("no answer within %v", bound))
	defer cancel()
	all := make([]facts, len(d.nodes))
	var connecting, examined sync.WaitGroup
	connecting.Add(len(d.nodes))
	votes := sync.OnceValue(func() []redlock.NodeStats {
		connecting.Wait()
		admin.Of(locker).AwaitVotes(ctx)
		return locker.Stats().Nodes
	})
	for i, node := range d.nodes {
		examined.Go(func() {
			p := probe{Master: ask.Master{Node: (*pipeline.Node)(node), Clock: d.clock, Patience: ask.Patience}, prefix: d.prefix, name: d.name}
			connected := p.connect(ctx, &all[i])
			connecting.Done()
			// Before the requests: after the last of them the connection takes no others.
			vote := votes()[i]
			all[i].barred, all[i].barredFor = vote.Barred, vote.QuarantinedFor
			if connected {
				p.ask(ctx, &all[i])
			}
		})
	}
	examined.Wait()
	stats := locker.Stats()
	return diagnose(all, d.limits, &cluster{followed.membership, stats.Members, followed.flaws}), nil
}
