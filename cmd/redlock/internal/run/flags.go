package run

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/job"
	"github.com/redquorum/redquorum/cmd/redlock/internal/masters"
	"github.com/redquorum/redquorum/redlock"
)

// flags are those that run and elect share.
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

// words are what run and elect call the same things.
type words struct {
	name   string // what has the name
	held   string // what is held while the command runs
	dies   string // what happens if this machine dies
	keep   string // to hold it
	holder string
	owner  string // the default of --owner
}

func (f *flags) add(cmd *cobra.Command, w words) {
	cmd.Flags().SetInterspersed(false) // the command's flags are its own
	// Flags come before the command: check.
	cmd.Args = func(*cobra.Command, []string) error { return nil }
	set := cmd.Flags()
	set.StringVar(&f.name, "name", "", "`name` of the "+w.name+" (required)")
	set.DurationVar(&f.ttl, "ttl", cli.DefaultTTL, "how long the "+w.dies+" if this machine dies; from 1s to --max-ttl")
	set.DurationVar(&f.killAfter, "kill-after", 0,
		"time between SIGTERM and SIGKILL when the "+w.held+" is being lost, at most a third of the TTL (default: a sixth)")
	set.BoolVar(&f.killRest, "kill-rest", false,
		"end what the command leaves running: SIGTERM, --kill-after later SIGKILL (default: "+w.keep+" until it has ended)")
	set.BoolVar(&f.detach, "detach", false,
		"leave alone what has left the command's process group, such as a daemon (default: it is part of the command)")
	set.StringVar(&f.owner, "owner", "", "`text` that inspect shows as the "+w.holder+" (default: "+w.owner+")")
	set.BoolVar(&f.quiet, "quiet", false, "write only failures to stderr")
	set.BoolVar(&f.verbose, "verbose", false, "log to stderr what happens to masters and locks")
	set.BoolVar(&f.json, "json", false, "write messages and log to stderr as JSON, one object per line")
	f.nodes.Add(cmd)
}

// maxName is the library's limit. It would reject a name too, but only after the wait for masters.
const maxName = 4096

// check validates the flags and fills in defaults. Package redlock validates the nodes and other
// limits.
func (f *flags) check(cmd *cobra.Command, args []string, w words) error {
	if !cmd.Flags().Changed("kill-after") {
		f.killAfter = f.ttl / 6
	}
	if err := cli.CheckName(f.name); err != nil {
		return err
	}
	switch {
	case f.name == "":
		return cli.Usagef("%s needs the name of the %s: --name NAME", cmd.Name(), w.name)
	case len(f.name) > maxName:
		return cli.Usagef("--name: %d bytes are more than %d", len(f.name), maxName)
	case len(args) == 0 || args[0] == "":
		return cli.Usagef("%s needs a command: redlock %[1]s --name NAME -- COMMAND", cmd.Name())
	case f.nodes.CheckTTL(f.ttl) != nil:
		return f.nodes.CheckTTL(f.ttl)
	case f.killAfter < 0 || f.killAfter > f.ttl/3:
		return cli.Usagef("--kill-after: %v is not between 0s and %v, a third of the TTL: the command must be gone before "+
			"the %s ends, and the first two thirds are for renewing it", f.killAfter, f.ttl/3, w.held)
	case f.quiet && f.verbose:
		return cli.Usagef("--quiet and --verbose: give only one of them")
	}
	return nil
}

func (f *flags) grace() job.Grace { return job.NewGrace(f.ttl, f.killAfter) }

// runner is one redlock run or redlock elect. Its goroutine is the main one, which runs the command
// as well (see package job).
type runner struct {
	*flags
	locker   *redlock.Locker
	clock    clock.Clock
	signals  chan os.Signal
	messages job.Messages
	path     string // of the command
	argv     []string
	masters  []string // variables that tell the command of them
	began    time.Time
	outer    outer
}

// begin opens the Locker, and has do do the rest. The exit status is the error.
func (f *flags) begin(cmd *cobra.Command, argv []string, do func(context.Context, *runner) error, opts ...redlock.Option) error {
	messages := job.Messages{Quiet: f.quiet, JSON: f.json, Name: f.name}
	stderr := job.NewOutbox(cmd.ErrOrStderr(), clock.System(), messages.Dropped)
	defer stderr.Flush()
	messages.W = stderr
	found := f.nodes.Environment(cmd)
	path, err := job.Find(argv, job.Environment(os.Environ(), append(longest(f.name), found...)...))
	if err != nil {
		return messages.End("not-run", err)
	}
	if unseen := job.Unseen(); unseen != "" && !f.detach {
		messages.Warn("no-proc", "%s", unseen)
	}
	signals := make(chan os.Signal)
	job.Notify(signals, job.EndingSignals)
	opts = append(opts, redlock.WithTTL(f.ttl))
	if f.verbose {
		opts = append(opts, redlock.WithLogger(job.NewLogger(stderr, f.json)))
	}
	locker, err := f.nodes.Open(cmd, opts...)
	if err != nil {
		return err
	}
	return do(cmd.Context(), &runner{
		flags: f, locker: locker, clock: clock.System(), signals: signals, messages: messages, path: path, argv: argv,
		masters: found, outer: outerLocks(), began: clock.System().Wall(),
	})
}

// longest returns the variables of a command of that name, as long as they may become.
func longest(name string) []string {
	return []string{
		job.NameVariable + "=" + name + "#" + strconv.Itoa(maxPermits), job.UntilVariable + "=" + untilLayout,
		job.FenceVariable + "=" + strconv.Itoa(math.MaxInt64), outerLocks().with(""),
	}
}

// job returns the command, with variables in its environment. It runs under a lock with this value.
func (r *runner) job(value string, variables ...string) job.Job {
	variables = append(append(variables, r.outer.with(value)), r.masters...)
	return job.Job{
		Path: r.path, Argv: r.argv, Env: job.Environment(os.Environ(), variables...), Clock: r.clock, Signals: r.signals,
		Messages: r.messages, Grace: r.grace(), KillRest: r.killRest, Detach: r.detach,
		Causes: func() string { return masters.Causes(r.locker.Stats().Nodes) },
	}
}

// interrupted is the signal that ended a wait.
type interrupted struct {
	signal os.Signal
	while  string
}

func (e interrupted) Error() string { return fmt.Sprintf("ended while %s: %v", e.while, e.signal) }

func (e interrupted) status() int {
	number, _ := e.signal.(syscall.Signal)
	return cli.ExitSignal + int(number)
}

// listen takes signals until mute is called: the first that means the end ends a wait. A signal
// that comes later stays in the channel, and goes to the command.
func (r *runner) listen(end context.CancelCauseFunc, while string) (mute func()) {
	quit := make(chan struct{})
	var listener sync.WaitGroup
	listener.Go(func() {
		for {
			select {
			case s := <-r.signals:
				switch {
				case slices.Contains(job.EndingSignals, s):
					end(interrupted{s, while})
					return
				case job.IsSuspend(s):
					job.Suspend()
				}
			case <-quit:
				return
			}
		}
	})
	return func() {
		close(quit)
		listener.Wait()
	}
}
