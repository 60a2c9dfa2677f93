package members

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/internal/prose"
)

// run makes a change, and shows the list as it is then.
func (f *flags) run(ctx context.Context, cmd *cobra.Command, operator *admin.Operator, c *change, args []string) error {
	ctx, stop := interruptible(ctx)
	defer stop()
	m, err := operator.Cluster().Members(ctx)
	if err != nil {
		return failure(err, operator)
	}
	steps, err := c.plan(&m, args)
	if err != nil {
		return err
	}
	say := sayer{w: cmd.ErrOrStderr(), now: clock.System().Now}
	done := doesOf(steps)
	if f.dryRun {
		for _, s := range steps {
			say.note(s)
		}
	} else if m, done, err = c.make(ctx, operator, steps, args, &say); err != nil {
		return err
	}
	stats := operator.Stats()
	v := viewOf(&m, &stats)
	v.Changes, v.dryRun, v.changes = done, f.dryRun, true
	if f.dryRun {
		v.TakesMillis = least(&m, steps).Milliseconds()
	}
	return f.output.Write(cmd, v, v.text)
}

// make makes the steps. Where one of them changed nothing, because the new endpoint is another name
// of the member that it is to replace, what is left to do follows.
func (c *change) make(ctx context.Context, operator *admin.Operator, steps []step, args []string, say *sayer) (m admin.Membership, done []string, err error) {
	for range 2 {
		for _, s := range steps {
			if len(done) == 0 {
				say.note(s)
			}
			say.line("%s", s.does)
			say.waits = ""
			if err := s.make(ctx, operator.Cluster().Progress(say.progress)); err != nil {
				if errors.As(context.Cause(ctx), new(interrupted)) {
					err = stopped(ctx, err)
				}
				return m, nil, failure(err, operator)
			}
		}
		done = append(done, doesOf(steps)...)
		if m, err = operator.Cluster().Members(ctx); err != nil {
			return m, nil, failure(err, operator)
		}
		if !c.adds {
			return m, done, nil
		}
		if steps, err = c.plan(&m, args); err != nil || len(steps) == 0 || !c.removes {
			break
		}
	}
	if err == nil && len(steps) > 0 {
		err = fmt.Errorf("the master of %s is a member already, by another endpoint: remove it, and add it again", args[len(args)-1])
	}
	return m, done, err
}

func doesOf(steps []step) []string {
	does := []string{}
	for _, s := range steps {
		does = append(does, s.does)
	}
	return does
}

// interrupted is why a change was given up.
type interrupted struct{ signal syscall.Signal }

func (i interrupted) Error() string { return i.signal.String() }

// interruptible returns a context that ends with the first SIGINT or SIGTERM. The second one kills
// the process.
func interruptible(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case s := <-signals:
			number, _ := s.(syscall.Signal)
			cancel(interrupted{number})
		case <-ctx.Done():
		}
		signal.Stop(signals)
	}()
	return ctx, func() { cancel(nil) }
}

// stopped says what it means that a change was interrupted.
func stopped(ctx context.Context, err error) error {
	var why interrupted
	errors.As(context.Cause(ctx), &why)
	waits := ""
	if _, after, found := strings.Cut(err.Error(), context.Canceled.Error()+": "); found {
		waits = " while it waited for: " + strings.TrimSuffix(after, ".")
	}
	return cli.StatusError{Status: cli.ExitSignal + int(why.signal), Err: fmt.Errorf(
		"interrupted%s. Nothing is lost: the change is made or it is not, and no lock is affected; the same command goes on", waits)}
}

// again is how often the same wait is told.
const again = 10 * time.Second

// sayer tells on stderr what a change waits for.
type sayer struct {
	w     io.Writer
	now   func() clock.Instant
	waits string
	told  clock.Instant
}

// note says what else there is to know about a step.
func (s *sayer) note(of step) {
	if of.note != "" {
		s.line("%s", of.note)
	}
}

func (s *sayer) line(format string, args ...any) {
	fmt.Fprintf(s.w, "redlock: "+format+"\n", args...) //nolint:errcheck // nobody is left to tell
}

// progress tells a new wait at once, and an old one from time to time.
func (s *sayer) progress(waits string, left time.Duration) {
	now := s.now()
	if waits == s.waits && now.Sub(s.told) < again {
		return
	}
	s.waits, s.told = waits, now
	if left > 0 {
		waits += fmt.Sprintf(" (another %v)", roughly(left))
	}
	s.line("waiting: %s", prose.Readable(waits))
}

// roughly rounds a wait, as people tell it.
func roughly(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(time.Second)
}
