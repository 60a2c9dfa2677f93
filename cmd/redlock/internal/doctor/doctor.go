// Package doctor is `redlock doctor`: it examines whether masters are fit for locks.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/masters"
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

const long = `doctor examines everything that the vote of a master depends on: whether it is reachable and accepts
our credentials, is an independent master, keeps what it stores, can prove that it forgot nothing,
answers in time, and has the right time. It also tells which kinds of locks our user has no rights
for: semaphores, shared locks, elections. It writes one key per master, redquorum:doctor:*, and
deletes it. It gives a new master its memory marker, redquorum:memory, as any client does, and makes
no master vote.

Each finding has a severity. An error means that the vote of this master does not count or cannot be
relied on, a warning that it works today, a note that it is good to know.

Exit status: 0 if a majority of the masters has no error; 1 if not; 64 for a wrong command line.`

const example = `  redlock doctor --nodes redis://a:6379,redis://b:6379,redis://c:6379
  redlock doctor --nodes-file /etc/redlock/nodes --ttl 10s
  redlock doctor --json | jq '.nodes[].findings[]'`

// NewCommand returns `redlock doctor`.
func NewCommand() *cobra.Command {
	var nodes masters.Flags
	var ttl time.Duration
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "doctor [flags]",
		Short:   "Tell whether masters are fit for locks",
		Long:    long,
		Example: example,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 { // not shown: it may be an endpoint with a password
				return cli.Usagef("doctor takes no arguments; give the endpoints of masters to --nodes")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if ttl < cli.MinTTL || ttl > nodes.MaxTTL {
				return cli.Usagef("--ttl: %v is not between %v and the maximum TTL of %v", ttl, cli.MinTTL, nodes.MaxTTL)
			}
			endpoints, err := nodes.Endpoints(cmd)
			if err != nil {
				return err
			}
			d := &doctor{
				endpoints: endpoints, prefix: nodes.KeyPrefix,
				limits: limits{ttl, nodes.MaxTTL, nodes.Strict}, clock: clock.System(),
			}
			report, err := d.examine(cmd.Context())
			if errors.Is(err, pool.ErrEndpoint) {
				return nodes.Wrong(cmd, err)
			}
			if err != nil {
				return err
			}
			write := writeDiagnosis
			if asJSON {
				write = cli.WriteJSON[diagnosis]
			}
			if err := write(cmd.OutOrStdout(), report); err != nil {
				return err
			}
			if !report.Safe {
				return cli.StatusError{Status: cli.ExitFailed}
			}
			return nil
		},
	}
	cmd.Flags().DurationVar(&ttl, "ttl", cli.DefaultTTL, "TTL of the locks; slowness is measured against it")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	nodes.Add(cmd)
	return cmd
}

// doctor examines masters.
type doctor struct {
	endpoints []string
	prefix    string
	limits
	clock clock.Clock
}

// examine asks all masters concurrently and judges their answers. It returns an error only for an
// endpoint that cannot be used.
func (d *doctor) examine(ctx context.Context) (diagnosis, error) {
	nodes, err := d.dial()
	defer closeAll(nodes)
	if err != nil {
		return diagnosis{}, err
	}
	// A Locker knows which votes would not count, and why. It makes no new master vote: clients
	// that hold locks may rely on that.
	locker, err := redlock.NewFromNodes(nodes, redlock.WithTTL(d.ttl), redlock.WithMaxTTL(d.maxTTL),
		redlock.WithKeyPrefix(d.prefix), redlock.WithQuarantine(redlock.QuarantineStrict))
	if err != nil {
		return diagnosis{}, cli.InvalidUsage(err)
	}
	defer locker.Close() //nolint:errcheck // it holds no locks
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	all := make([]facts, len(nodes))
	var connecting, examined sync.WaitGroup
	connecting.Add(len(nodes))
	votes := sync.OnceValue(func() []redlock.NodeStats {
		connecting.Wait()
		masters.AwaitVotes(ctx, d.clock, locker, masters.AllDecided)
		return locker.Stats().Nodes
	})
	for i, node := range nodes {
		examined.Go(func() {
			p := probe{node: (*pipeline.Node)(node), clock: d.clock, prefix: d.prefix}
			connected := p.connect(ctx, &all[i])
			connecting.Done()
			// Before the requests: after the last of them the connection takes no others.
			all[i].takeVote(votes()[i])
			if connected {
				p.ask(ctx, &all[i])
			}
		})
	}
	examined.Wait()
	return diagnose(all, d.limits), nil
}

// dial returns a node with a connection of its own for each endpoint. The caller closes the nodes,
// also after an error.
func (d *doctor) dial() (nodes []*pool.Node, err error) {
	for i, endpoint := range d.endpoints {
		node, err := pool.NewNode(endpoint, pool.WithClock(d.clock), pool.WithClientName("redlock-doctor"),
			pool.WithDialTimeout(dialTimeout))
		if err != nil {
			return nodes, fmt.Errorf("endpoint %d: %w", i+1, err)
		}
		nodes = append(nodes, node)
	}
	return nodes, nil
}

func closeAll(nodes []*pool.Node) {
	var all sync.WaitGroup
	for _, node := range nodes {
		all.Go(func() { _ = node.Close() }) //nolint:errcheck // always nil
	}
	all.Wait()
}
