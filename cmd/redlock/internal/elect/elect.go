// Package elect is `redlock elect`: a command that runs on one machine of many, at a time.
package elect

import (
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/job"
	"github.com/redquorum/redquorum/cmd/redlock/internal/masters"
	"github.com/redquorum/redquorum/election"
	"github.com/redquorum/redquorum/redlock"
)

const long = `elect runs a command on one machine of many. Start it on each: they elect a leader, which runs the
command for as long as it leads. If it dies, or can no longer reach a majority of the masters,
another one leads and runs the command. The command begins at the first word that is not a flag.

A leader that is about to lose its leadership ends the command and everything that it has started
before another can lead: SIGTERM, and SIGKILL --kill-after later. Then it campaigns again. With
--detach, what has left the process group of the command (daemons) is on its own.

If the command ends by itself, elect gives up the leadership and ends with its exit status. Let a
supervisor (systemd) start it again.

Stdin, stdout and stderr belong to the command, and signals are passed on to it while it runs. Its
environment has REDLOCK_NAME and REDLOCK_FENCE, the term: a number that grows with every leader.

Exit status: the command's, 128+n if signal n ended it or the wait for the leadership; 69 if too few
masters answer at the start; 78 if the name is that of a key that does not expire or is no string,
and so no lock; 64 for a wrong command line; 126 and 127 if the command cannot be executed or found.`

const example = `  export REDLOCK_NODES=redis://a:6379,redis://b:6379,redis://c:6379
  redlock elect --name scheduler -- /usr/local/bin/scheduler
  redlock elect --name scheduler --ttl 5s -- sh -c 'exec sched "$REDLOCK_FENCE"'`

// NewCommand returns `redlock elect`.
func NewCommand() *cobra.Command {
	f := flags{}
	cmd := &cobra.Command{
		Use:     "elect --name NAME [flags] [--] COMMAND [ARGUMENT...]",
		Short:   "Run a command for as long as this machine leads",
		Long:    long,
		Example: example,
		// Flags come before the command: flags.check.
		Args: func(*cobra.Command, []string) error { return nil },
		RunE: func(cmd *cobra.Command, args []string) error {
			job.IgnorePipes()
			if err := f.check(cmd, args); err != nil {
				return err
			}
			messages := job.Messages{Quiet: f.quiet, JSON: f.json, Name: f.name}
			stderr := job.NewOutbox(cmd.ErrOrStderr(), clock.System(), messages.Dropped)
			defer stderr.Flush()
			messages.W = stderr
			path, err := job.Find(args)
			if err != nil {
				return messages.End("not-run", err)
			}
			signals := make(chan os.Signal)
			job.Notify(signals, job.EndingSignals)
			opts := []redlock.Option{redlock.WithTTL(f.ttl)}
			if f.verbose {
				opts = append(opts, redlock.WithLogger(job.NewLogger(stderr, f.json)))
			}
			locker, err := f.nodes.Open(cmd, opts...)
			if err != nil {
				return err
			}
			c := &candidate{flags: &f, locker: locker, signals: signals, messages: messages, path: path, argv: args}
			return c.run(cmd.Context())
		},
	}
	cmd.Flags().SetInterspersed(false) // the command's flags are its own
	f.add(cmd)
	f.nodes.Add(cmd)
	return cmd
}

// flags are the flags of elect. They mean what they mean for run.
type flags struct {
	nodes          masters.Flags
	name           string
	ttl            time.Duration
	killAfter      time.Duration
	killRest       bool
	detach         bool
	owner          string
	quiet, verbose bool
	json           bool
}

func (f *flags) add(cmd *cobra.Command) {
	set := cmd.Flags()
	set.StringVar(&f.name, "name", "", "`name` of the election (required)")
	set.DurationVar(&f.ttl, "ttl", cli.DefaultTTL, "how long the others wait if this machine dies; at least 1s")
	set.DurationVar(&f.killAfter, "kill-after", 0,
		"time between SIGTERM and SIGKILL when the leadership is being lost, at most a third of the TTL (default: a sixth)")
	set.BoolVar(&f.killRest, "kill-rest", false,
		"end what the command leaves running: SIGTERM, --kill-after later SIGKILL (default: lead until it has ended)")
	set.BoolVar(&f.detach, "detach", false,
		"leave alone what has left the command's process group, such as a daemon (default: it is part of the command)")
	set.StringVar(&f.owner, "owner", "", "`text` that inspect shows as the leader (default: user@host:pid redlock)")
	set.BoolVar(&f.quiet, "quiet", false, "write only failures to stderr")
	set.BoolVar(&f.verbose, "verbose", false, "log to stderr what happens to masters and locks")
	set.BoolVar(&f.json, "json", false, "write messages and log to stderr as JSON, one object per line")
}

// The library's limits.
const (
	maxName  = 4096
	maxOwner = 256
)

// check validates the flags and fills in defaults. Package redlock validates the nodes and other
// limits.
func (f *flags) check(cmd *cobra.Command, args []string) error {
	given := cmd.Flags().Changed
	if !given("kill-after") {
		f.killAfter = f.ttl / 6
	}
	if err := cli.CheckName(f.name); err != nil {
		return err
	}
	switch {
	case f.name == "":
		return cli.Usagef("elect needs the name of the election: --name NAME")
	case len(f.name) > maxName:
		return cli.Usagef("--name: %d bytes are more than %d", len(f.name), maxName)
	case len(args) == 0 || args[0] == "":
		return cli.Usagef("elect needs a command: redlock elect --name NAME -- COMMAND")
	case f.nodes.CheckTTL(f.ttl) != nil:
		return f.nodes.CheckTTL(f.ttl)
	case f.killAfter < 0 || f.killAfter > f.ttl/3:
		return cli.Usagef("--kill-after: %v is not between 0s and %v, a third of the TTL: the command must be gone before "+
			"the leadership ends, and the first two thirds are for renewing it", f.killAfter, f.ttl/3)
	case given("owner") && (f.owner == "" || len(f.owner) > maxOwner):
		return cli.Usagef("--owner: %d bytes are not between 1 and %d", len(f.owner), maxOwner)
	case f.quiet && f.verbose:
		return cli.Usagef("--quiet and --verbose: give only one of them")
	}
	return nil
}

func (f *flags) grace() job.Grace { return job.NewGrace(f.ttl, f.killAfter) }

// election returns the candidate of this process. It leads only if there is time to run a command.
func (f *flags) election(locker *redlock.Locker) (*election.Election, error) {
	opts := []election.Option{election.WithLockOptions(redlock.WithMinValidity(f.grace().Least()))}
	if f.owner != "" {
		opts = append(opts, election.WithID(f.owner))
	}
	return election.New(locker, f.name, opts...)
}
