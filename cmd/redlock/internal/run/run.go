// Package run is `redlock run`: flock(1) for many machines.
package run

import (
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/masters"
	"github.com/redquorum/redquorum/redlock"
)

const long = `run waits for a lock, runs a command while it holds it, and releases it when the command ends: flock(1) for
many machines. Everything from the first word that is no flag is the command.

What the command leaves running in its process group ("job &" at the end of a script) belongs to it:
the lock is held until that has ended, too. With --kill-rest it is ended.

The lock is renewed while the command runs, however long that takes. Should it be lost all the same, because too few
masters answer for longer than the TTL, the command and everything in its process group gets SIGTERM, and SIGKILL
--kill-after later, before its time is over. What has left the group is not reached.

Stdin, stdout and stderr are the command's own. Signals are passed on to it. It finds REDLOCK_NAME and REDLOCK_UNTIL
(when the lock ends unless it is renewed, as it was at the start; RFC 3339) in its environment, with --fence also
REDLOCK_FENCE, and never REDLOCK_NODES.

Exit status: the command's, 128+n where signal n ended it; 75 when the lock was not had; 69 when too few masters
answer; 70 when the lock was lost and the command ended for it; 64 for a wrong command line; 126 and 127 when the
command cannot be run or found.`

const example = `  export REDLOCK_NODES=redis://a:6379,redis://b:6379,redis://c:6379
  redlock run --name nightly -- php cron.php
  redlock run --name nightly --no-wait --conflict-exit-code 0 -- ./backup.sh --full
  redlock run --name import --wait 10m --ttl 20s --max-hold 2h -- sh -c 'fetch | load'
  redlock run --nodes-file /etc/redlock/nodes --name report --quiet -- make report`

// NewCommand returns `redlock run`.
func NewCommand() *cobra.Command {
	f := flags{}
	cmd := &cobra.Command{
		Use:     "run --name NAME [flags] [--] COMMAND [ARGUMENT...]",
		Short:   "Run a command while holding a lock",
		Long:    long,
		Example: example,
		Args:    func(*cobra.Command, []string) error { return nil }, // the flags come first: flags.check
		RunE: func(cmd *cobra.Command, args []string) error {
			ignorePipes()
			if err := f.check(cmd, args); err != nil {
				return err
			}
			messages := messages{quiet: f.quiet, json: f.json, name: f.name}
			stderr := newOutbox(cmd.ErrOrStderr(), clock.System(), messages.dropped)
			defer stderr.flush()
			messages.w = stderr
			path, err := findCommand(args[0])
			if err != nil {
				return messages.end("not-run", err)
			}
			signals := make(chan os.Signal)
			notify(signals, endingSignals)
			locker, err := f.nodes.Open(cmd, f.lockerOptions(cmd, stderr)...)
			if err != nil {
				return err
			}
			r := &runner{flags: &f, locker: locker, clock: clock.System(), signals: signals, messages: messages, path: path, argv: args}
			return r.run(cmd.Context())
		},
	}
	cmd.Flags().SetInterspersed(false) // the flags of the command are its own
	cmd.Flags().StringVar(&f.name, "name", "", "`name` of the lock (required)")
	cmd.Flags().DurationVar(&f.ttl, "ttl", cli.DefaultTTL, "how long the lock stays when this machine dies; at least 1s")
	cmd.Flags().DurationVar(&f.wait, "wait", 0, "wait for the lock for so long at most (default: for ever)")
	cmd.Flags().BoolVar(&f.noWait, "no-wait", false, "do not wait for a lock that somebody holds")
	cmd.Flags().DurationVar(&f.maxHold, "max-hold", 0, "end the command before the lock is held for longer (default: no limit)")
	cmd.Flags().DurationVar(&f.killAfter, "kill-after", 0, "time between SIGTERM and SIGKILL when the lock is being lost, at most\na third of the TTL (default: a sixth)")
	cmd.Flags().BoolVar(&f.killRest, "kill-rest", false, "end what the command leaves running: SIGTERM, --kill-after later SIGKILL\n(default: hold the lock until it has ended)")
	cmd.Flags().BoolVar(&f.fence, "fence", false, "set REDLOCK_FENCE: a number that grows with every holder")
	cmd.Flags().IntVar(&f.conflictStatus, "conflict-exit-code", cli.ExitTaken, "exit `status` when the lock was not had")
	cmd.Flags().StringVar(&f.owner, "owner", "", "`text` to show to those who inspect the lock (default: user@host:pid)")
	cmd.Flags().BoolVar(&f.quiet, "quiet", false, "write nothing to stderr")
	cmd.Flags().BoolVar(&f.verbose, "verbose", false, "log to stderr what becomes of masters and locks")
	cmd.Flags().BoolVar(&f.json, "json", false, "write messages and log to stderr as JSON, one object per line")
	f.nodes.Add(cmd)
	return cmd
}

// flags is what a command is run with.
type flags struct {
	nodes          masters.Flags
	name           string
	ttl            time.Duration
	wait           time.Duration // 0: as long as it takes
	noWait         bool
	maxHold        time.Duration // 0: no limit
	killAfter      time.Duration
	killRest       bool
	fence          bool
	conflictStatus int
	owner          string
	quiet, verbose bool
	json           bool
}

// maxName is what the library takes. It would say so too, but only behind the wait for masters.
const maxName = 4096

// check tells what is wrong with the flags, and fills in what is not given. What is wrong with nodes and other limits, redlock tells.
func (f *flags) check(cmd *cobra.Command, args []string) error {
	given := cmd.Flags().Changed
	if !given("kill-after") {
		f.killAfter = f.ttl / 6
	}
	if given("wait") && f.wait == 0 {
		f.noWait = true
	}
	switch {
	case f.name == "":
		return cli.Usagef("run needs the name of the lock: --name NAME")
	case len(f.name) > maxName:
		return cli.Usagef("--name: %d bytes are more than %d", len(f.name), maxName)
	case len(args) == 0 || args[0] == "":
		return cli.Usagef("run needs a command: redlock run --name NAME -- COMMAND")
	case f.ttl < cli.MinTTL:
		return cli.Usagef("--ttl: %v is below %v: a command could not be ended in time", f.ttl, cli.MinTTL)
	case f.killAfter < 0 || f.killAfter > f.ttl/3:
		return cli.Usagef("--kill-after: %v is not between 0s and %v, a third of the TTL: the command must be gone before the lock ends, "+
			"and the first two thirds are for renewing it", f.killAfter, f.ttl/3)
	case f.wait < 0:
		return cli.Usagef("--wait: %v is negative", f.wait)
	case f.noWait && f.wait > 0:
		return cli.Usagef("--wait and --no-wait: only one of them")
	case given("max-hold") && f.maxHold < f.grace().least():
		return cli.Usagef("--max-hold: %v is below %v, the time that it takes to end a command (see --kill-after)", f.maxHold, f.grace().least())
	case f.conflictStatus < 0 || f.conflictStatus > 255:
		return cli.Usagef("--conflict-exit-code: %d is not between 0 and 255", f.conflictStatus)
	case f.quiet && f.verbose:
		return cli.Usagef("--quiet and --verbose: only one of them")
	}
	return nil
}

func (f *flags) grace() grace { return newGrace(f.ttl, f.killAfter) }

func (f *flags) lockerOptions(cmd *cobra.Command, stderr io.Writer) []redlock.Option {
	owner := f.owner
	if !cmd.Flags().Changed("owner") {
		owner = defaultOwner()
	}
	opts := []redlock.Option{
		redlock.WithTTL(f.ttl), redlock.WithOwner(owner), redlock.WithMinValidity(f.grace().least()),
	}
	if f.maxHold > 0 {
		opts = append(opts, redlock.WithMaxHold(f.maxHold))
	}
	if f.fence {
		opts = append(opts, redlock.WithFencing())
	}
	if f.verbose {
		opts = append(opts, redlock.WithLogger(newLogger(stderr, f.json)))
	}
	return opts
}
