package run

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/job"
	"github.com/redquorum/redquorum/election"
	"github.com/redquorum/redquorum/internal/owner"
	"github.com/redquorum/redquorum/redlock"
)

const electLong = `elect runs a command on one machine of many. Start it on each: they elect a leader, which runs the
command for as long as it leads. If it dies, or can no longer reach a majority of the masters,
another one leads and runs the command. The command begins at the first word that is not a flag.

A leader that is about to lose its leadership ends the command and everything that it has started
before another can lead: SIGTERM, and SIGKILL --kill-after later. Then it campaigns again. With
--detach, what has left the process group of the command (daemons) is on its own.

If the command ends by itself, elect gives up the leadership and ends with its exit status. Let a
supervisor (systemd) start it again.

Stdin, stdout and stderr belong to the command, and signals are passed on to it while it runs. Its
environment has REDLOCK_NAME and REDLOCK_FENCE, the term: a number that grows with every leader; and
REDLOCK_HELD and the masters, as that of run. The events of --json are those of run, and elected.

Exit status: the command's, 128+n if signal n ended it or the wait for the leadership; 69 if too few
masters answer at the start; 78 if the name is that of a key that does not expire or is no string,
and so no lock; 64 for a wrong command line, and for a name that a redlock around this one holds; 126
and 127 if the command cannot be executed or found.`

const electExample = `  export REDLOCK_NODES=redis://a:6379,redis://b:6379,redis://c:6379
  redlock elect --name scheduler -- /usr/local/bin/scheduler
  redlock elect --name scheduler --ttl 5s -- sh -c 'exec sched "$REDLOCK_FENCE"'`

var electWords = words{
	name: "election", held: "leadership", dies: "others wait", keep: "lead", holder: "leader",
	owner: "user@host:pid redlock",
}

// NewElectCommand returns `redlock elect`.
func NewElectCommand() *cobra.Command {
	f := flags{}
	var wait time.Duration
	cmd := &cobra.Command{
		Use:     "elect --name NAME [flags] [--] COMMAND [ARGUMENT...]",
		Short:   "Run a command for as long as this machine leads",
		Long:    electLong,
		Example: electExample,
		RunE: func(cmd *cobra.Command, args []string) error {
			job.IgnorePipes()
			if err := f.check(cmd, args, electWords); err != nil {
				return err
			}
			if cmd.Flags().Changed("owner") && (f.owner == "" || len(f.owner) > maxOwner) {
				return cli.Usagef("--owner: %d bytes are not between 1 and %d", len(f.owner), maxOwner)
			}
			if cmd.Flags().Changed("wait") && wait <= 0 {
				return cli.Usagef("--wait: %v is not above 0s", wait)
			}
			var acquired atomic.Pointer[redlock.Lock]
			return f.begin(cmd, args, func(ctx context.Context, r *runner) error {
				return (&candidate{runner: r, wait: wait, acquired: &acquired}).run(ctx)
			}, redlock.WithHooks(redlock.Hooks{Acquired: func(lock *redlock.Lock) { acquired.Store(lock) }}))
		},
	}
	f.add(cmd, electWords)
	cmd.Flags().DurationVar(&wait, "wait", 0,
		"wait at most this long for a majority of the masters at the start (default: 5s, and until quarantines end)")
	return cmd
}

// maxOwner is the library's limit.
const maxOwner = owner.Most

// candidate is one redlock elect.
type candidate struct {
	*runner
	wait time.Duration // for a first quorum; 0: see ready

	election *election.Election
	acquired *atomic.Pointer[redlock.Lock] // the newest of its locks, once the hook has told
	end      context.CancelCauseFunc       // ends the campaign
	mute     func()                        // ends the listener, which takes signals while no command runs
	notified bool                          // of all signals
}

// run campaigns and leads, and returns the exit status as an error.
func (c *candidate) run(ctx context.Context) (err error) {
	defer c.locker.Close()                                                                          //nolint:errcheck // what is not delivered is logged with --verbose
	opts := []election.Option{election.WithLockOptions(redlock.WithMinValidity(c.grace().Least()))} // enough to run a command
	if c.owner != "" {
		opts = append(opts, election.WithID(c.owner))
	}
	if c.election, err = election.New(c.locker, c.name, opts...); err != nil {
		return cli.InvalidUsage(err)
	}
	ctx, c.end = context.WithCancelCause(ctx)
	defer c.end(nil)
	c.listen()
	if err = c.campaign(ctx); err != nil && c.acquired.Load() == nil {
		c.noteMiss(cmp.Or(context.Cause(ctx), err))
	}
	c.mute()
	var ended interrupted
	var status cli.StatusError
	switch {
	case errors.As(context.Cause(ctx), &ended):
		return c.messages.End(job.Interrupted, cli.StatusError{Status: ended.status(), Err: ended})
	case err == nil || errors.As(err, &status):
		return err
	case errors.Is(err, redlock.ErrInvalid): // only the masters knew
		return cli.InvalidUsage(cmp.Or(errors.Unwrap(err), err)) // without the prefix of election
	default:
		var failure *redlock.QuorumError
		if errors.As(err, &failure) {
			err = failure // it has a line for each master
		}
		return c.messages.End("no-quorum", cli.StatusError{Status: cli.ExitNoQuorum, Err: err}, c.locker.Stats().Nodes...)
	}
}

func (c *candidate) campaign(ctx context.Context) error {
	if err := c.readyToLead(ctx); err != nil {
		return err
	}
	// A candidate waits for such a key for ever, and says nothing.
	status, _ := admin.Of(c.locker).Inspect(ctx, c.name) //nolint:errcheck // the campaign waits for masters that are away
	if misnamed := cli.Misnamed(c.nodes.KeyPrefix+c.name, &status); misnamed != nil {
		return c.messages.End("misnamed", misnamed)
	}
	if c.outer.holds(&status) {
		return c.messages.End("nested", nested("%q is", c.name))
	}
	if about := tenantOf(status).holder(c.clock.Wall()); about != nil {
		c.messages.About(about).Say("waiting", "waits to lead %q%s", c.name, by(", led by ", about))
	}
	return c.election.Run(ctx, c.lead)
}

// lead runs the command for one term.
func (c *candidate) lead(ctx context.Context, term int64) error {
	c.mute() // from here on, signals are the command's
	defer c.listen()
	if ctx.Err() != nil {
		return nil // a signal came first
	}
	c.messages.Say("elected", "leads %q, term %d", c.name, term)
	if !c.notified {
		c.notified = true
		job.Notify(c.signals, job.RunningSignals) // before the command could miss one
	}
	value := c.value(ctx, term)
	command := c.job(value, job.NameVariable+"="+c.name, job.FenceVariable+"="+strconv.FormatInt(term, 10))
	notes := c.noteBegan(value)
	command.Left = notes.left
	result, err := command.Run(newLeadership(ctx, c.election))
	if err != nil {
		result.Status = cli.ExitStatus(err)
	}
	notes.ended(result)
	switch {
	case err != nil:
		return c.messages.End("not-run", err)
	case result.Lost && result.Asked != nil: // it was ending anyway
		c.end(interrupted{result.Asked, campaigning})
		return nil
	case result.Lost:
		// The command has ended for good, so what is left of the time is somebody else's.
		return c.election.Resign(ctx)
	case result.Status != 0:
		return cli.StatusError{Status: result.Status}
	default:
		return nil
	}
}

// value returns the value of the lock of a term. The hook that tells comes soon, if not before.
func (c *candidate) value(ctx context.Context, term int64) string {
	for {
		if lock := c.acquired.Load(); lock != nil && lock.Fence() == term {
			return lock.Value()
		}
		if !clock.Sleep(ctx, c.clock, time.Millisecond) {
			return ""
		}
	}
}

const campaigning = "campaigning"

// listen takes signals until mute.
func (c *candidate) listen() { c.mute = c.runner.listen(c.end, campaigning) }

// leadership is a term as the lock of a command.
type leadership struct {
	remaining func() time.Duration
	why       func() error
	done      <-chan struct{}
}

func newLeadership(ctx context.Context, e *election.Election) leadership {
	// A leader knows its own time without asking the masters. A context that has ended makes sure
	// of that: nothing here may wait.
	local, cancel := context.WithCancel(ctx)
	cancel()
	remaining := func() time.Duration {
		if !e.IsLeader() {
			return 0
		}
		leader, err := e.Leader(local)
		if err != nil {
			return 0
		}
		return leader.Until
	}
	why := func() error {
		if e.IsLeader() {
			return nil
		}
		return context.Cause(ctx)
	}
	return leadership{remaining: remaining, why: why, done: ctx.Done()}
}

// Remaining returns how long this process leads without another renewal; zero if it does not.
func (l leadership) Remaining() time.Duration { return l.remaining() }

// Err returns why it does not lead any more, or nil.
func (l leadership) Err() error { return l.why() }

// Done is closed when the leadership ends.
func (l leadership) Done() <-chan struct{} { return l.done }
