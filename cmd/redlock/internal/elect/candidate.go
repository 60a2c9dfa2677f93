package elect

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/job"
	"github.com/redquorum/redquorum/cmd/redlock/internal/masters"
	"github.com/redquorum/redquorum/election"
	"github.com/redquorum/redquorum/redlock"
)

// connectBound bounds the wait for a first quorum of masters. Later outages are waited out.
const connectBound = 5 * time.Second

// candidate is one redlock elect. Its goroutine is the main one, which runs the command as well
// (see package job).
type candidate struct {
	flags    *flags
	locker   *redlock.Locker
	signals  chan os.Signal
	messages job.Messages
	path     string // of the command
	argv     []string

	election *election.Election
	end      context.CancelCauseFunc // ends the campaign
	quit     chan struct{}           // closed to end the listener
	listener sync.WaitGroup          // takes signals while no command runs
	notified bool                    // of all signals
}

// interrupted is the signal that ended the campaign.
type interrupted struct{ signal os.Signal }

func (e interrupted) Error() string { return fmt.Sprintf("ended while campaigning: %v", e.signal) }

func (e interrupted) status() int {
	number, _ := e.signal.(syscall.Signal)
	return cli.ExitSignal + int(number)
}

// run campaigns and leads, and returns the exit status as an error.
func (c *candidate) run(ctx context.Context) (err error) {
	defer c.locker.Close() //nolint:errcheck // what is not delivered is logged with --verbose
	if c.election, err = c.flags.election(c.locker); err != nil {
		return cli.InvalidUsage(err)
	}
	ctx, c.end = context.WithCancelCause(ctx)
	defer c.end(nil)
	c.listen()
	err = c.campaign(ctx)
	c.mute()
	var ended interrupted
	var status cli.StatusError
	switch {
	case errors.As(context.Cause(ctx), &ended):
		return c.messages.End(job.Interrupted, cli.StatusError{Status: ended.status(), Err: ended})
	case err == nil || errors.As(err, &status):
		return err
	default:
		var failure *redlock.QuorumError
		if errors.As(err, &failure) {
			err = failure // it has a line for each master
		}
		return c.messages.End("no-quorum", cli.StatusError{Status: cli.ExitNoQuorum, Err: err}, c.locker.Stats().Nodes...)
	}
}

func (c *candidate) campaign(ctx context.Context) error {
	ready, cancel := context.WithTimeout(ctx, connectBound)
	defer cancel()
	if err := c.locker.Ready(ready); err != nil {
		return err
	}
	// A candidate waits for such a key for ever, and says nothing.
	status, _ := c.locker.Inspect(ctx, c.flags.name) //nolint:errcheck // the campaign waits for masters that are away
	if misnamed := cli.Misnamed(c.flags.nodes.KeyPrefix+c.flags.name, &status); misnamed != nil {
		return c.messages.End("misnamed", misnamed)
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
	c.messages.Say("elected", "leads %q, term %d", c.flags.name, term)
	if !c.notified {
		c.notified = true
		job.Notify(c.signals, job.RunningSignals) // before the command could miss one
	}
	command := job.Job{
		Path: c.path, Argv: c.argv, Clock: clock.System(), Signals: c.signals, Messages: c.messages,
		Grace: c.flags.grace(), KillRest: c.flags.killRest, Detach: c.flags.detach,
		Causes: func() string { return masters.Causes(c.locker.Stats().Nodes) },
		Env: job.Environment(os.Environ(),
			job.NameVariable+"="+c.flags.name, job.FenceVariable+"="+strconv.FormatInt(term, 10)),
	}
	result, err := command.Run(newLeadership(ctx, c.election))
	switch {
	case err != nil:
		return c.messages.End("not-run", err)
	case result.Lost && result.Asked != nil: // it was ending anyway
		c.end(interrupted{result.Asked})
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

// listen takes signals until mute.
func (c *candidate) listen() {
	quit := make(chan struct{})
	c.quit = quit
	c.listener.Go(func() {
		for {
			select {
			case s := <-c.signals:
				switch {
				case slices.Contains(job.EndingSignals, s):
					c.end(interrupted{s})
					return
				case job.IsSuspend(s):
					job.Suspend()
				}
			case <-quit:
				return
			}
		}
	})
}

// mute ends the listener. A signal that comes later stays in the channel.
func (c *candidate) mute() {
	close(c.quit)
	c.listener.Wait()
}

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
