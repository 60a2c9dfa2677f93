// Package run is `redlock run`: flock(1) for many machines.
package run

import (
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/job"
	"github.com/redquorum/redquorum/cmd/redlock/internal/masters"
	"github.com/redquorum/redquorum/redlock"
)

const long = `run waits for a lock, runs a command while it holds the lock, and releases it when the command has
ended: flock(1) for many machines. The command begins at the first word that is not a flag.

What the command leaves running ("job &" at the end of a script) is part of it: the lock is held
until that has ended too. With --kill-rest it is ended. So it is with what has left the process group
of the command (timeout, setsid, set -m, daemons), unless --detach says that this is on its own.

The lock is renewed while the command runs, however long that takes. If the lock is lost all the
same, because too few masters answer for longer than the TTL, the command and everything that it has
started gets SIGTERM, and SIGKILL --kill-after later, before its time is over.

With --at-least, nobody gets the lock again until that time has passed since it was acquired, even if
the command ends earlier, fails or is killed. So a cron job that takes a second runs once, although
the clocks of the machines differ.

Stdin, stdout and stderr belong to the command, and signals are passed on to it. Its environment has
REDLOCK_NAME and REDLOCK_UNTIL (when the lock would end without renewal, as of the start; RFC 3339),
with --fence also REDLOCK_FENCE, and never REDLOCK_NODES.

With --permits the name is that of a semaphore, and so many commands run at once on all machines
together. All must give the same number; without --permits, the same name is that of a lock, which
excludes none of them. REDLOCK_NAME is then that of the permit, NAME#1 to NAME#n,
and the numbers of --fence grow for each of them.

With --shared the lock is that of a reader: any number of commands with --shared run at once, and none
beside a command without it, which is a writer. Who came first is served first, so readers wait
behind a writer that waits.

Exit status: the command's, 128+n if signal n ended it; 75 if somebody else holds the lock; 69 if
too few masters answer; 78 if the name is that of a key that does not expire or is no string, and so
no lock; 70 if the lock was lost before the end; 64 for a wrong command line; 126 and 127 if the
command cannot be executed or found.`

const example = `  export REDLOCK_NODES=redis://a:6379,redis://b:6379,redis://c:6379
  redlock run --name nightly -- php cron.php
  redlock run --name nightly --no-wait --conflict-exit-code 0 -- ./backup --full
  redlock run --name minutely --no-wait --at-least 55s --quiet -- ./minutely
  redlock run --name encode --permits 3 -- ffmpeg -i in.mov out.mp4
  redlock run --name data --shared -- ./report.sh
  redlock run --name import --wait 10m --max-hold 2h -- sh -c 'fetch | load'
  redlock run --nodes-file /etc/redlock/nodes --name report -- make report`

// NewCommand returns `redlock run`.
func NewCommand() *cobra.Command {
	f := flags{}
	cmd := &cobra.Command{
		Use:     "run --name NAME [flags] [--] COMMAND [ARGUMENT...]",
		Short:   "Run a command while holding a lock",
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
			watch := newWatch(clock.System())
			opts := append(f.lockerOptions(cmd, stderr), redlock.WithHooks(redlock.Hooks{Failed: watch.failed}))
			locker, err := f.nodes.Open(cmd, opts...)
			if err != nil {
				return err
			}
			r := &runner{
				flags: &f, locker: locker, clock: clock.System(), signals: signals, messages: messages, watch: watch,
				path: path, argv: args,
			}
			return r.run(cmd.Context())
		},
	}
	cmd.Flags().SetInterspersed(false) // the command's flags are its own
	f.add(cmd)
	f.nodes.Add(cmd)
	return cmd
}

// flags are the flags of run.
type flags struct {
	nodes          masters.Flags
	name           string
	permits        int  // 0: a lock, not a semaphore
	shared         bool // the lock of a reader
	ttl            time.Duration
	wait           time.Duration // 0: no limit
	noWait         bool
	maxHold        time.Duration // 0: no limit
	atLeast        time.Duration
	killAfter      time.Duration
	killRest       bool
	detach         bool
	fence          bool
	conflictStatus int
	owner          string
	quiet, verbose bool
	json           bool
}

func (f *flags) add(cmd *cobra.Command) {
	set := cmd.Flags()
	set.StringVar(&f.name, "name", "", "`name` of the lock (required)")
	set.IntVar(&f.permits, "permits", 0, "let so `many` hold a semaphore of that name at once, at most 1024")
	set.BoolVar(&f.shared, "shared", false,
		"share the lock with others that give --shared, and exclude those that do not")
	set.DurationVar(&f.ttl, "ttl", cli.DefaultTTL, "how long the lock stays if this machine dies; from 1s to --max-ttl")
	set.DurationVar(&f.wait, "wait", 0, "wait at most this long for the lock; 0s is --no-wait (default: for ever)")
	set.BoolVar(&f.noWait, "no-wait", false, "do not wait for a lock that somebody holds")
	set.DurationVar(&f.maxHold, "max-hold", 0,
		"end the command before the lock is held for longer (default: no limit)")
	set.DurationVar(&f.atLeast, "at-least", 0,
		"keep the lock taken for this long at least, also after the command has ended; at most --max-ttl")
	set.DurationVar(&f.killAfter, "kill-after", 0,
		"time between SIGTERM and SIGKILL when the lock is being lost, at most a third of the TTL (default: a sixth)")
	set.BoolVar(&f.killRest, "kill-rest", false,
		"end what the command leaves running: SIGTERM, --kill-after later SIGKILL (default: hold the lock until it has ended)")
	set.BoolVar(&f.detach, "detach", false,
		"leave alone what has left the command's process group, such as a daemon (default: it is part of the command)")
	set.BoolVar(&f.fence, "fence", false, "set REDLOCK_FENCE: a number that grows with every holder")
	set.IntVar(&f.conflictStatus, "conflict-exit-code", cli.ExitTaken,
		"exit `status` if somebody else holds the lock")
	set.StringVar(&f.owner, "owner", "", "`text` that inspect shows as the holder (default: user@host:pid redlock)")
	set.BoolVar(&f.quiet, "quiet", false, "write only failures to stderr")
	set.BoolVar(&f.verbose, "verbose", false, "log to stderr what happens to masters and locks")
	set.BoolVar(&f.json, "json", false, "write messages and log to stderr as JSON, one object per line")
}

// The library's limits. It would reject a name too, but only after the wait for masters.
const (
	maxName    = 4096
	maxPermits = 1024
)

// check validates the flags and fills in defaults. Package redlock validates the nodes and other
// limits.
func (f *flags) check(cmd *cobra.Command, args []string) error {
	given := cmd.Flags().Changed
	if !given("kill-after") {
		f.killAfter = f.ttl / 6
	}
	if given("wait") && f.wait == 0 {
		f.noWait = true
	}
	if err := cli.CheckName(f.name); err != nil {
		return err
	}
	switch {
	case f.name == "":
		return cli.Usagef("run needs the name of the lock: --name NAME")
	case len(f.name) > maxName:
		return cli.Usagef("--name: %d bytes are more than %d", len(f.name), maxName)
	case given("permits") && (f.permits < 1 || f.permits > maxPermits):
		return cli.Usagef("--permits: %d is not between 1 and %d", f.permits, maxPermits)
	case len(args) == 0 || args[0] == "":
		return cli.Usagef("run needs a command: redlock run --name NAME -- COMMAND")
	case f.nodes.CheckTTL(f.ttl) != nil:
		return f.nodes.CheckTTL(f.ttl)
	case f.killAfter < 0 || f.killAfter > f.ttl/3:
		return cli.Usagef("--kill-after: %v is not between 0s and %v, a third of the TTL: the command must be gone before "+
			"the lock ends, and the first two thirds are for renewing it", f.killAfter, f.ttl/3)
	case f.wait < 0:
		return cli.Usagef("--wait: %v is negative", f.wait)
	case f.noWait && f.wait > 0:
		return cli.Usagef("--wait and --no-wait: give only one of them")
	case given("max-hold") && f.maxHold < f.grace().Least():
		return cli.Usagef("--max-hold: %v is below %v, the time it takes to end a command (see --kill-after)",
			f.maxHold, f.grace().Least())
	case f.atLeast < 0:
		return cli.Usagef("--at-least: %v is negative", f.atLeast)
	case f.atLeast > f.nodes.MaxTTL:
		return cli.Usagef("--at-least: %v is above the --max-ttl of %v: give a shorter --at-least, or a longer --max-ttl to "+
			"everyone who shares the masters", f.atLeast, f.nodes.MaxTTL)
	case f.permits > 0 && f.atLeast > 0:
		return cli.Usagef("--permits and --at-least: give only one of them")
	case f.shared && f.permits > 0:
		return cli.Usagef("--shared and --permits: give only one of them")
	case f.shared && f.atLeast > 0:
		return cli.Usagef("--shared and --at-least: give only one of them")
	case f.conflictStatus < 0 || f.conflictStatus > 255:
		return cli.Usagef("--conflict-exit-code: %d is not between 0 and 255", f.conflictStatus)
	case f.quiet && f.verbose:
		return cli.Usagef("--quiet and --verbose: give only one of them")
	}
	return nil
}

// stays returns for how long the key may stay at a master that misses the release.
func (f *flags) stays() time.Duration { return max(f.ttl, f.atLeast) }

func (f *flags) grace() job.Grace { return job.NewGrace(f.ttl, f.killAfter) }

func (f *flags) lockerOptions(cmd *cobra.Command, stderr io.Writer) []redlock.Option {
	opts := []redlock.Option{
		redlock.WithTTL(f.ttl), redlock.WithMinValidity(f.grace().Least()), redlock.WithMinHold(f.atLeast),
	}
	if cmd.Flags().Changed("owner") {
		opts = append(opts, redlock.WithOwner(f.owner))
	}
	if f.maxHold > 0 {
		opts = append(opts, redlock.WithMaxHold(f.maxHold))
	}
	if f.fence {
		opts = append(opts, redlock.WithFencing())
	}
	if f.verbose {
		opts = append(opts, redlock.WithLogger(job.NewLogger(stderr, f.json)))
	}
	return opts
}
