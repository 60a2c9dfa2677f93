// Package run is `redlock run`, flock(1) for many machines, and `redlock elect`, a command that
// runs on one machine of many. Both run a command for as long as a lock is held (package job).
package run

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/job"
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
and with --fence also REDLOCK_FENCE. It also has what names the masters, for a redlock in the command,
and REDLOCK_HELD, by which that is refused a lock that is held for it already.

With --permits the name is that of a semaphore, and so many commands run at once on all machines
together. All must give the same number; without --permits, the same name is that of a lock, which
excludes none of them. REDLOCK_NAME is then that of the permit, NAME#1 to NAME#n,
and the numbers of --fence grow for each of them.

With --shared the lock is that of a reader: any number of commands with --shared run at once, and none
beside a command without it, which is a writer. Who came first is served first, so readers wait
behind a writer that waits.

With --replace, the redlock run that has the lock is asked to end. It ends its command as if it had
got SIGTERM, and the next one begins when all of that has ended. What is no run cannot be asked, and
is named.

The events of --json are no-proc, waiting, replacing, degraded, taken, stale, nested, not-replaced,
misnamed, no-quorum, interrupted, not-run, replaced, left-running, not-ended, not-stopped, lost,
not-signalled, not-released, not-delivered and dropped. Where it is known who has the lock, waiting,
replacing, taken and stale also have holder, since (when it asked for the lock, by its clock), held_ms
(from then until now) and waited (so it may have held the lock for less long).

Exit status: the command's, 128+n if signal n ended it; 75 if somebody else holds the lock; 69 if
too few masters answer; 78 if the name is that of a key that does not expire or is no string, and so
no lock; 70 if the lock was lost before the end; 64 for a wrong command line, and for a lock that a
redlock around this one holds for it; 126 and 127 if the command cannot be executed or found.`

const example = `  export REDLOCK_NODES=redis://a:6379,redis://b:6379,redis://c:6379
  redlock run --name nightly -- php cron.php
  redlock run --name nightly --no-wait --conflict-exit-code 0 -- ./backup --full
  redlock run --name minutely --no-wait --at-least 55s --quiet -- ./minutely
  redlock run --name encode --permits 3 -- ffmpeg -i in.mov out.mp4
  redlock run --name data --shared -- ./report.sh
  redlock run --name import --replace --wait 5m -- ./import
  redlock run --name import --wait 10m --max-hold 2h -- sh -c 'fetch | load'
  redlock run --nodes-file /etc/redlock/nodes --name report -- make report`

var runWords = words{
	name: "lock", held: "lock", dies: "lock stays", keep: "hold the lock", holder: "holder",
	owner: "user@host:pid redlock run and the program, with its first argument if that is a file",
}

// NewCommand returns `redlock run`.
func NewCommand() *cobra.Command {
	f := runFlags{}
	cmd := &cobra.Command{
		Use:     "run --name NAME [flags] [--] COMMAND [ARGUMENT...]",
		Short:   "Run a command while holding a lock",
		Long:    long,
		Example: example,
		RunE: func(cmd *cobra.Command, args []string) error {
			job.IgnorePipes()
			if err := f.check(cmd, args); err != nil {
				return err
			}
			watch := newWatch(clock.System())
			return f.begin(cmd, args, func(ctx context.Context, r *runner) error {
				return (&holder{runner: r, flags: &f, watch: watch}).run(ctx)
			}, append(f.options(), redlock.WithHooks(redlock.Hooks{Failed: watch.failed}))...)
		},
	}
	f.add(cmd)
	return cmd
}

// runFlags are the flags of run.
type runFlags struct {
	flags
	permits        int           // 0: a lock, not a semaphore
	shared         bool          // the lock of a reader
	wait           time.Duration // 0: no limit
	noWait         bool
	maxHold        time.Duration // 0: no limit
	atLeast        time.Duration
	fence          bool
	conflictStatus int
	stale          time.Duration // 0: no holder is too old
	replace        bool          // ask the run that has the lock to end
}

func (f *runFlags) add(cmd *cobra.Command) {
	f.flags.add(cmd, runWords)
	set := cmd.Flags()
	set.IntVar(&f.permits, "permits", 0, "let so `many` hold a semaphore of that name at once, at most 1024")
	set.BoolVar(&f.shared, "shared", false,
		"share the lock with others that give --shared, and exclude those that do not")
	set.DurationVar(&f.wait, "wait", 0, "wait at most this long for the lock; 0s is --no-wait (default: for ever)")
	set.BoolVar(&f.noWait, "no-wait", false, "do not wait for a lock that somebody holds")
	set.BoolVar(&f.replace, "replace", false,
		"ask the redlock run that has the lock to end its command (SIGTERM), and wait for that, --wait at most")
	set.DurationVar(&f.maxHold, "max-hold", 0,
		"end the command before the lock is held for longer (default: no limit)")
	set.DurationVar(&f.atLeast, "at-least", 0,
		"keep the lock taken for this long at least, also after the command has ended; at most --max-ttl, the "+
			"time for which a master that forgets has no vote: a long one endangers all locks")
	set.BoolVar(&f.fence, "fence", false, "set REDLOCK_FENCE: a number that grows with every holder")
	set.IntVar(&f.conflictStatus, "conflict-exit-code", cli.ExitTaken,
		"exit `status` if somebody else holds the lock")
	set.DurationVar(&f.stale, "stale", 0,
		"if somebody else has held the lock for this long, say so also with --quiet, and exit 75 whatever --conflict-exit-code says")
}

// maxPermits is the library's limit.
const maxPermits = 1024

// check validates the flags and fills in defaults.
func (f *runFlags) check(cmd *cobra.Command, args []string) error {
	given := cmd.Flags().Changed
	if given("wait") && f.wait == 0 {
		f.noWait = true
	}
	if err := f.flags.check(cmd, args, runWords); err != nil {
		return err
	}
	switch {
	case given("permits") && (f.permits < 1 || f.permits > maxPermits):
		return cli.Usagef("--permits: %d is not between 1 and %d", f.permits, maxPermits)
	case f.wait < 0:
		return cli.Usagef("--wait: %v is negative", f.wait)
	case f.noWait && f.wait > 0:
		return cli.Usagef("--wait and --no-wait: give only one of them")
	case f.replace && (f.noWait || f.shared || f.permits > 0):
		return cli.Usagef("--replace: it waits for one run, so without --no-wait, --shared and --permits")
	case f.replace && len(f.owner) > maxOwner-len(replacing("")):
		return cli.Usagef("--owner: with --replace, %d bytes are more than %d", len(f.owner), maxOwner-len(replacing("")))
	case given("max-hold") && f.maxHold < f.grace().Least():
		return cli.Usagef("--max-hold: %v is below %v, the time it takes to end a command (see --kill-after)",
			f.maxHold, f.grace().Least())
	case f.atLeast < 0:
		return cli.Usagef("--at-least: %v is negative", f.atLeast)
	case f.atLeast > f.nodes.MaxTTL:
		return cli.Usagef("--at-least: %v is above the --max-ttl of %v: give a shorter --at-least, or a longer --max-ttl to "+
			"everyone who shares the masters (then a master that forgets has no vote for as long)", f.atLeast, f.nodes.MaxTTL)
	case f.permits > 0 && f.atLeast > 0:
		return cli.Usagef("--permits and --at-least: give only one of them")
	case f.shared && f.permits > 0:
		return cli.Usagef("--shared and --permits: give only one of them")
	case f.shared && f.atLeast > 0:
		return cli.Usagef("--shared and --at-least: give only one of them")
	case f.stale < 0:
		return cli.Usagef("--stale: %v is negative", f.stale)
	case f.conflictStatus < 0 || f.conflictStatus > 255:
		return cli.Usagef("--conflict-exit-code: %d is not between 0 and 255", f.conflictStatus)
	}
	if !given("owner") {
		f.owner = processOwner(args)
	}
	return nil
}

// stays returns for how long the key may stay at a master that misses the release.
func (f *runFlags) stays() time.Duration { return max(f.ttl, f.atLeast) }

func (f *runFlags) options() []redlock.Option {
	opts := []redlock.Option{redlock.WithMinValidity(f.grace().Least()), redlock.WithMinHold(f.atLeast), redlock.WithOwner(f.owner)}
	if f.maxHold > 0 {
		opts = append(opts, redlock.WithMaxHold(f.maxHold))
	}
	if f.fence {
		opts = append(opts, redlock.WithFencing())
	}
	return opts
}
