// Package tasks is `redlock queue`: the delayed queue of package queue for those who do not write
// Go.
package tasks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/masters"
	"github.com/redquorum/redquorum/internal/prose"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/queue"
	"github.com/redquorum/redquorum/redlock"
)

const long = `queue adds tasks to a delayed queue, runs a command for each that is due, and tells of those that have
failed for good. The queue is on one Redis, the store; the masters have the lock under which it is
changed. A task is an id, and has a payload if it was given one. There is one entry for an id.

In the store, the queue is the sorted set Queue:NAME of ids by due time, in Unix seconds. Any client
may add to it with ZADD.

Exit status: 0; 1 if the store does not answer; 69 if too few masters answer within 10s; 75 if others
keep the queue locked for as long; 64 for a wrong command line.`

const example = `  export REDLOCK_NODES=redis://a:6379,redis://b:6379,redis://c:6379
  export REDLOCK_STORE=redis://d:6379
  redlock queue add orders 4711 --delay 30m
  redlock queue run orders --max-attempts 5 -- php cancel-unpaid.php
  redlock queue list orders
  redlock queue retry orders 4711`

// StoreVariable has the endpoint of the store.
const StoreVariable = "REDLOCK_STORE"

// bound is how long a command waits for the lock of the queue.
const bound = 10 * time.Second

// flags are those of every command below queue.
type flags struct {
	nodes     masters.Flags
	store     string
	keepFirst bool // of add
}

// NewCommand returns `redlock queue`.
func NewCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "queue",
		Short:   "Run a command for each task of a delayed queue",
		Long:    long,
		Example: example,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return cli.Usagef("%s takes add, list, remove, retry or run, and the name of a queue", cmd.Name())
	}
	cmd.AddCommand(newAddCommand(), newListCommand(), newRemoveCommand(), newRetryCommand(), newRunCommand())
	return cmd
}

func (f *flags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.store, "store", "",
		"`endpoint` of the Redis that has the queue (default: "+StoreVariable+", which is better for a password)")
	f.nodes.Add(cmd)
}

// open opens the queue of that name, for as long as use takes.
func (f *flags) open(cmd *cobra.Command, name string, use func(*redlock.Locker, *queue.Queue) error, opts ...redlock.Option) error {
	store, err := StoreOf(cmd, f.store)
	if err != nil {
		return err
	}
	locker, err := f.nodes.Open(cmd, append([]redlock.Option{redlock.WithTTL(min(bound, f.nodes.MaxTTL))}, opts...)...)
	if err != nil {
		return err
	}
	defer locker.Close() //nolint:errcheck // a lock that is not released expires
	var how []queue.Option
	if f.keepFirst {
		how = append(how, queue.KeepFirst())
	}
	q, err := OpenAt(locker, store, name, how...)
	if err != nil {
		return err
	}
	defer q.Close() //nolint:errcheck // always nil
	return failure(use(locker, q))
}

// StoreOf returns the endpoint of the store: that of --store, or of the environment.
func StoreOf(cmd *cobra.Command, flag string) (string, error) {
	store := flag
	if !cmd.Flags().Changed("store") {
		store = os.Getenv(StoreVariable)
	}
	if store == "" {
		return "", cli.Usagef("which store? Set %s, or give --store", StoreVariable)
	}
	return store, nil
}

// OpenAt opens the queue of that name at a store. Close it before the Locker.
func OpenAt(locker *redlock.Locker, store, name string, opts ...queue.Option) (*queue.Queue, error) {
	q, err := queue.New(locker, store, name, opts...)
	if errors.Is(err, pool.ErrEndpoint) {
		_, why, _ := strings.Cut(err.Error(), pool.ErrEndpoint.Error()+": ")
		return nil, cli.Usagef("the store: %s", why)
	}
	return q, failure(err)
}

// change opens the queue for a change, which waits a while for the lock.
func (f *flags) change(cmd *cobra.Command, name string, use func(context.Context, *queue.Queue) error) error {
	return f.open(cmd, name, func(_ *redlock.Locker, q *queue.Queue) error {
		ctx, cancel := context.WithTimeout(cmd.Context(), bound)
		defer cancel()
		return use(ctx, q)
	})
}

// failure gives an error its exit status.
func failure(err error) error {
	switch {
	case errors.Is(err, queue.ErrInvalid):
		return cli.Usagef("%s", cli.Reason(err, queue.ErrInvalid))
	case errors.Is(err, redlock.ErrNoQuorum):
		return cli.StatusError{Status: cli.ExitNoQuorum, Err: err}
	case errors.Is(err, redlock.ErrTaken):
		return cli.StatusError{Status: cli.ExitTaken, Err: err}
	default:
		return err
	}
}

// named wants the name of a queue, and so many words behind it at least. It never shows what it was
// given, which may be an endpoint with a password.
func named(least int, what string) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 || args[0] == "" {
			return cli.Usagef("queue %s needs the name of a queue", cmd.Name())
		}
		if err := cli.CheckName(args[0]); err != nil {
			return err
		}
		if len(args)-1 < least {
			return cli.Usagef("queue %s needs %s behind the name of the queue", cmd.Name(), what)
		}
		return nil
	}
}

func newAddCommand() *cobra.Command {
	f := flags{}
	var delay time.Duration
	var payload string
	var stdin bool
	cmd := &cobra.Command{
		Use:   "add NAME ID... [flags]",
		Short: "Add tasks to a queue",
		Long: `add puts tasks into a queue, due after --delay. An id that is there already moves to the new due time,
keeps its payload if none is given, and has all attempts before it again; with --keep-first it stays
as it is.`,
		Example: `  redlock queue add orders 4711 4712 --delay 30m
  redlock queue add mails welcome/42 --payload '{"to":"a@example.com"}'`,
		Args: named(1, "ids"),
		RunE: func(cmd *cobra.Command, args []string) error {
			given := []byte(payload)
			if stdin {
				if cmd.Flags().Changed("payload") {
					return cli.Usagef("--payload and --payload-stdin: give only one of them")
				}
				text, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), 1<<20)) // more than a payload may have
				if err != nil {
					return err
				}
				given = text
			}
			return f.change(cmd, args[0], func(ctx context.Context, q *queue.Queue) error {
				if !stdin && !cmd.Flags().Changed("payload") {
					return q.Enqueue(ctx, args[1:], delay)
				}
				var items []queue.Item
				for _, id := range args[1:] {
					items = append(items, queue.Item{ID: id, Payload: given})
				}
				return q.Add(ctx, items, delay)
			})
		},
	}
	cmd.Flags().DurationVar(&delay, "delay", 0, "the tasks are due after this time (default: at once)")
	cmd.Flags().StringVar(&payload, "payload", "", "`text` that the command gets on stdin; at most 64 KiB")
	cmd.Flags().BoolVar(&stdin, "payload-stdin", false, "read the payload from stdin")
	cmd.Flags().BoolVar(&f.keepFirst, "keep-first", false, "leave tasks as they are that are in the queue already")
	f.add(cmd)
	return cmd
}

func newRemoveCommand() *cobra.Command {
	f := flags{}
	var dead bool
	cmd := &cobra.Command{
		Use:   "remove NAME ID... [flags]",
		Short: "Remove tasks from a queue, or dead letters",
		Long: `remove removes tasks, with their payloads and attempts, and prints how many there were. A command
that runs for one of them goes on. With --dead it removes dead letters, and no task.`,
		Example: `  redlock queue remove orders 4711
  redlock queue remove orders 4711 --dead`,
		Args: named(1, "ids"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.change(cmd, args[0], func(ctx context.Context, q *queue.Queue) error {
				if dead {
					return say(cmd, "removed", "dead letter")(q.Drop(ctx, args[1:]...))
				}
				return say(cmd, "removed", "task")(q.Remove(ctx, args[1:]...))
			})
		},
	}
	cmd.Flags().BoolVar(&dead, "dead", false, "remove dead letters")
	f.add(cmd)
	return cmd
}

func newRetryCommand() *cobra.Command {
	f := flags{}
	var all bool
	cmd := &cobra.Command{
		Use:   "retry NAME [ID...] [flags]",
		Short: "Put dead letters back into a queue",
		Long: `retry puts dead letters back into the queue, due at once, with their payloads and with all attempts
before them, and prints how many there were. One whose id is in the queue again stays as it is.`,
		Example: `  redlock queue retry orders 4711
  redlock queue retry orders --all`,
		Args: named(0, ""),
		RunE: func(cmd *cobra.Command, args []string) error {
			if all == (len(args) > 1) {
				return cli.Usagef("queue retry needs ids, or --all")
			}
			return f.change(cmd, args[0], func(ctx context.Context, q *queue.Queue) error {
				retry := q.Retry
				if all {
					retry = func(ctx context.Context, _ ...string) (int, error) { return retryAll(ctx, q) }
				}
				return say(cmd, "put back", "dead letter")(retry(ctx, args[1:]...))
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "put all of them back, at most as many as there are now")
	f.add(cmd)
	return cmd
}

// retryAll puts all letters back, page by page. It ends at a page of letters whose ids are in the
// queue again.
func retryAll(ctx context.Context, q *queue.Queue) (total int, err error) {
	counts, err := q.Count(ctx)
	for err == nil && total < counts.Dead {
		letters, failed := q.Dead(ctx, 2000)
		if failed != nil || len(letters) == 0 {
			return total, failed
		}
		var ids []string
		for i := range letters {
			ids = append(ids, letters[i].ID)
		}
		n, failed := q.Retry(ctx, ids...)
		if total, err = total+n, failed; n == 0 {
			break
		}
	}
	return total, err
}

// say returns a function that prints how many of what were changed.
func say(cmd *cobra.Command, did, noun string) func(n int, err error) error {
	return func(n int, err error) error {
		if err == nil {
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s %s\n", did, prose.Plural(n, noun))
		}
		return err
	}
}
