// Package demo is `redlock demo`: it shows the lock at work on masters inside this process.
package demo

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/masters"
	"github.com/redquorum/redquorum/cmd/redlock/internal/terminal"
)

const long = `demo starts five Redis masters inside this process and lets workers contend for one lock, each as
a process of its own would. It shows:

  contention      the lock goes to the worker that has waited longest, by a
                  wake-up, not by polling
  dead minority   two of the five masters are stopped, connections and all, and
                  restarted with their data
  stopped holder  a worker that has the lock falls asleep, cut off from all
                  masters; the lock ends with its TTL, and another one gets it
  fencing         that worker wakes up and writes; the store rejects the write
                  because it has seen a larger token
  exclusion       who held the lock when, as a picture; all recorded times are
                  compared

With --nodes it uses your own Redis masters instead of the embedded ones, and stops none of them. It
writes the key redlock-demo:orders there, which expires with its TTL, along with a wait list and a
fencing counter, redquorum:wait:redlock-demo:orders and redquorum:fence:redlock-demo:orders, which
stay for some minutes. It ignores REDLOCK_NODES: a demo must not reach production by accident.

On a terminal the picture is drawn while the demo runs. Otherwise, or if TERM is dumb, events are
printed as lines. NO_COLOR is respected. The picture is as wide as the terminal, or as COLUMNS says,
or 80 columns. Ctrl-C ends the demo early and reports what was seen until then.

Exit status: 0; 1 if two workers held the lock at once, the stale write was accepted or never
happened, the store rejected a holder, or nobody ever got the lock; 64 for a wrong command line.`

const example = `  redlock demo
  redlock demo --duration 30s --workers 12
  redlock demo --nodes redis://a:6379,redis://b:6379,rediss://c:6380
  redlock demo | tee demo.txt`

// NewCommand returns `redlock demo`.
func NewCommand() *cobra.Command {
	cfg := config{duration: 10 * time.Second, workers: 6}
	var nodes []string
	cmd := &cobra.Command{
		Use:     "demo",
		Short:   "Show the lock at work, with dead masters and a stopped holder",
		Long:    long,
		Example: example,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 { // not shown: it may be an endpoint with a password
				return cli.Usagef("demo takes no arguments; give the endpoints of nodes to --nodes, separated by commas without spaces")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg.nodes = masters.Split(nodes)
			if err := cfg.check(cmd.Flags().Changed("nodes")); err != nil {
				return err
			}
			ctx, stop := cli.UntilSignal(cmd)
			defer stop()
			cfg.look = terminal.LookOf(cmd.OutOrStdout())
			return run(ctx, cfg, cmd.OutOrStdout())
		},
	}
	cmd.Flags().DurationVar(&cfg.duration, "duration", cfg.duration, "how long the demo runs, from 3s to 1m")
	cmd.Flags().IntVar(&cfg.workers, "workers", cfg.workers, "how many workers contend, from 2 to 16")
	// Not a StringSlice: its errors quote what they cannot parse, including passwords.
	cmd.Flags().StringArrayVar(&nodes, "nodes", nil,
		"`endpoints` of Redis masters to use instead of embedded ones: "+
			"redis://, rediss://, unix:// or host:port; separated by commas, or repeated")
	return cmd
}

// Fixed parameters of the demo.
const (
	embeddedNodes = 5
	lockName      = "orders"
	keyPrefix     = "redlock-demo:"
	readyBound    = 5 * time.Second

	// A busy machine may need longer than planned until the stopped worker has written.
	overtimeBound = 10 * time.Second
)

// Limits of the flags.
const (
	minDuration = 3 * time.Second // with a shorter one, the TTL is only milliseconds
	maxDuration = time.Minute     // every hold is recorded and drawn
	minWorkers  = 2               // a single worker does not contend
	maxWorkers  = 16              // a line each
)

// Everything is a share of the duration, so the picture looks alike for any duration.
const (
	ttlShare       = 8
	shortHoldShare = 130 // more than half a column of a picture of 80 columns
	longHoldShare  = 80
	restShare      = 300 // between two holds of a worker: it soon waits again
	stopAtPercent  = 55
)

// A busy machine would lose a shorter TTL than this.
const minTTL = 300 * time.Millisecond

// config is the configuration of a demo.
type config struct {
	duration time.Duration
	workers  int
	nodes    []string      // endpoints of real nodes; nil: embedded ones
	ready    time.Duration // bounds the wait for a quorum of them; 0: readyBound
	look     terminal.Look
}

// check validates the flags. Package redlock validates the endpoints.
func (c *config) check(nodesGiven bool) error {
	switch {
	case c.duration < minDuration || c.duration > maxDuration:
		return cli.Usagef("--duration: %v is not between %v and %v", c.duration, minDuration, maxDuration)
	case c.workers < minWorkers || c.workers > maxWorkers:
		return cli.Usagef("--workers: %d is not between %d and %d", c.workers, minWorkers, maxWorkers)
	case nodesGiven && len(c.nodes) == 0:
		return cli.Usagef("--nodes: no endpoint")
	}
	return masters.CheckEmpty("--nodes", c.nodes)
}

func (c *config) ttl() time.Duration { return max(c.duration/ttlShare, minTTL) }

// holds returns the shortest and the longest time that a worker holds the lock.
func (c *config) holds() (shortest, longest time.Duration) {
	return c.duration / shortHoldShare, c.duration / longHoldShare
}

// retry is longer than a turn of all workers, so a poll shows that a wake-up was missing.
func (c *config) retry() (shortest, longest time.Duration) {
	shortHold, longHold := c.holds()
	turn := time.Duration(c.workers) * (shortHold + longHold) / 2
	return 2 * turn, 4 * turn
}

func (c *config) rest() time.Duration { return c.duration / restShare }

// stopAt is when a holder is stopped.
func (c *config) stopAt() time.Duration { return c.duration * stopAtPercent / 100 }
