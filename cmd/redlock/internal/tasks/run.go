package tasks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/job"
	"github.com/redquorum/redquorum/internal/prose"
	"github.com/redquorum/redquorum/queue"
	"github.com/redquorum/redquorum/redlock"
)

const runLong = `run runs a command for each task that is due, until SIGINT or SIGTERM. Any number of machines may run
one queue: each task goes to one of them. The environment of the command has REDLOCK_TASK_ID and
REDLOCK_TASK_ATTEMPT (1 for the first), and its stdin is the payload. What it writes is passed on.

If it exits with 0, the task is done. Otherwise the attempt has failed, and the end of its stderr is
kept as the error: the task is due again after a pause that grows from --backoff to --backoff-max. If
that was the last of --max-attempts, the task becomes a dead letter (redlock queue list, retry,
remove --dead).

The task is the command's for --lease. If it takes longer, its process group gets SIGTERM
--kill-after before the end, and SIGKILL at the end; then it is due again. So it is when this machine
dies, which has used up an attempt. Thus a task may run more than once, and must do no harm then.
What is left of the process group when the command has ended gets SIGKILL.

SIGINT and SIGTERM end run: commands get SIGTERM, and SIGKILL --kill-after later. One that exits with
0 has done its task.

Exit status: 0 when it was asked to end; 1 if it could not tell the store what it has done: then those
tasks run again; 69 if too few masters answer within 10s at the start (later it waits for them); 64
for a wrong command line; 126 and 127 if the command cannot be executed or found.`

const runExample = `  redlock queue run orders --max-attempts 5 -- php cancel-unpaid.php
  redlock queue run mails --concurrency 4 --lease 2m -- ./mail-one`

// Variables in the environment of the command.
const (
	idVariable      = "REDLOCK_TASK_ID"
	attemptVariable = "REDLOCK_TASK_ATTEMPT"
)

// runFlags are those of run.
type runFlags struct {
	flags
	attempts              int
	backoff, backoffMost  time.Duration
	lease, killAfter      time.Duration
	concurrency           int
	stdout, stderr        io.Writer
	path                  string // of the command
	argv, masterVariables []string
}

func newRunCommand() *cobra.Command {
	f := runFlags{}
	cmd := &cobra.Command{
		Use:     "run NAME [flags] -- COMMAND [ARGUMENT...]",
		Short:   "Run a command for each task that is due",
		Long:    runLong,
		Example: runExample,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := named(1, "-- and a command")(cmd, args); err != nil {
				return err
			}
			if cmd.ArgsLenAtDash() != 1 || args[1] == "" { // so that the command's flags are its own
				return cli.Usagef("queue run needs a command behind --: redlock queue run NAME -- COMMAND")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			job.IgnorePipes()
			opts, err := f.check(cmd)
			if err != nil {
				return err
			}
			f.argv, f.masterVariables = args[1:], f.nodes.Environment(cmd)
			if f.path, err = job.Find(f.argv, f.environment(&queue.Task{ID: strings.Repeat("x", 1024)})); err != nil {
				return err
			}
			f.stdout, f.stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
			ctx, stop := cli.UntilSignal(cmd)
			defer stop()
			return f.open(cmd, args[0], func(locker *redlock.Locker, q *queue.Queue) error {
				ended, end := context.WithCancel(ctx)
				end() // this Run only looks at the options: nobody should wait for masters to learn of a typo
				if err := q.Run(ended, f.handle, opts...); err != nil {
					return err
				}
				if err := ready(ctx, locker); err != nil {
					return err
				}
				return q.Run(ctx, f.handle, opts...)
			})
		},
	}
	set := cmd.Flags()
	set.IntVar(&f.attempts, "max-attempts", 0, "a task that has failed so `many` times becomes a dead letter (default: no limit)")
	set.DurationVar(&f.backoff, "backoff", 10*time.Second, "pause after the first failure; doubled by each further one")
	set.DurationVar(&f.backoffMost, "backoff-max", time.Hour, "longest pause after a failure")
	set.DurationVar(&f.lease, "lease", time.Minute, "how long a command may take")
	set.DurationVar(&f.killAfter, "kill-after", 5*time.Second, "time between SIGTERM and SIGKILL; at most half of the lease")
	set.IntVar(&f.concurrency, "concurrency", 1, "run so `many` commands at once")
	f.add(cmd)
	return cmd
}

// ready waits until enough masters vote, or not any longer if ctx ends.
func ready(ctx context.Context, locker *redlock.Locker) error {
	short, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	if err := locker.Ready(short); err != nil && ctx.Err() == nil {
		return cli.StatusError{Status: cli.ExitNoQuorum, Err: err}
	}
	return nil
}

// check validates the flags. Package queue knows their limits.
func (f *runFlags) check(cmd *cobra.Command) ([]queue.RunOption, error) {
	if f.killAfter < 0 || f.killAfter > f.lease/2 {
		return nil, cli.Usagef("--kill-after: %v is not between 0s and %v, half of the lease", f.killAfter, f.lease/2)
	}
	tell := func(err error) {
		text := prose.Readable(cli.WithoutPrefix(err))
		_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "redlock: %s\n", text) //nolint:errcheck // nobody is left to tell
	}
	opts := []queue.RunOption{
		queue.WithBackoff(f.backoff, max(f.backoff, f.backoffMost)), queue.WithLease(f.lease), queue.WithConcurrency(f.concurrency),
		queue.WithReport(tell), queue.WithFailed(func(err *queue.TaskError) { tell(err) }),
	}
	if cmd.Flags().Changed("max-attempts") {
		opts = append(opts, queue.WithMaxAttempts(f.attempts))
	}
	return opts, nil
}

func (f *runFlags) environment(task *queue.Task) []string {
	own := []string{idVariable + "=" + task.ID, attemptVariable + "=" + strconv.Itoa(task.Attempt)}
	return job.Environment(os.Environ(), append(own, f.masterVariables...)...)
}

// handle runs the command for a task.
func (f *runFlags) handle(ctx context.Context, task queue.Task) error {
	// The kernel kills the command when the thread that started it ends, as it does with us.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var said tail
	command := &exec.Cmd{
		Path: f.path, Args: f.argv, Env: f.environment(&task), Stdin: bytes.NewReader(task.Payload),
		Stdout: f.stdout, Stderr: io.MultiWriter(f.stderr, &said), SysProcAttr: job.ChildAttributes(),
		WaitDelay: time.Second, // for what the command left running, which has its stderr
	}
	if err := command.Start(); err != nil {
		return err
	}
	over := f.watch(ctx, command.Process)
	err := command.Wait()
	ended := over()
	signalGroup(command.Process, syscall.SIGKILL)
	switch text := said.String(); {
	case err == nil || errors.Is(err, exec.ErrWaitDelay): // it has ended, and only its stderr was open
		return nil
	case ended && text != "":
		return fmt.Errorf("took longer than %v: %w: %s", f.lease, err, text)
	case ended:
		return fmt.Errorf("took longer than %v: %w", f.lease, err)
	case text != "":
		return fmt.Errorf("%w: %s", err, text)
	default:
		return err
	}
}

// watch ends a process in time: before its lease is over, or when we are to end. The function that
// it returns stops that, and reports whether the lease was the reason.
func (f *runFlags) watch(ctx context.Context, process *os.Process) (over func() bool) {
	quit, done := make(chan struct{}), make(chan bool, 1)
	go func() { // ends with over
		soon := time.NewTimer(f.lease - f.lease/100 - f.killAfter)
		defer soon.Stop()
		isOver := func() bool { return errors.Is(context.Cause(ctx), context.DeadlineExceeded) }
		late := false
		select {
		case <-soon.C:
			late = true
		case <-ctx.Done(): // or the lease, if we have got it late
			late = isOver()
		case <-quit:
			done <- false
			return
		}
		signalGroup(process, syscall.SIGTERM)
		last, leaseOver := time.NewTimer(f.killAfter), ctx.Done()
		defer last.Stop()
		if ctx.Err() != nil && !late {
			leaseOver = nil
		}
		select {
		case <-leaseOver:
			signalGroup(process, syscall.SIGKILL)
		case <-last.C:
			signalGroup(process, syscall.SIGKILL)
		case <-quit:
		}
		done <- late
	}()
	return func() bool {
		close(quit)
		return <-done
	}
}

// maxSaid is how much of the end of stderr is kept.
const maxSaid = 900

// tail keeps the end of what is written.
type tail struct{ text []byte }

func (t *tail) Write(text []byte) (int, error) {
	t.text = append(t.text, text...)
	t.text = t.text[max(len(t.text)-maxSaid, 0):]
	return len(text), nil
}

// String returns the end of what was written, without blanks around it.
func (t *tail) String() string { return strings.TrimSpace(strings.ToValidUTF8(string(t.text), "")) }
