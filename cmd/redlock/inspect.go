package main

import (
	"errors"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/redquorum/redquorum/admin/survey"
	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/masters"
	"github.com/redquorum/redquorum/cmd/redlock/internal/tables"
	"github.com/redquorum/redquorum/cmd/redlock/internal/terminal"
	"github.com/redquorum/redquorum/redlock"
)

func newInspectCommand() *cobra.Command {
	var nodes masters.Flags
	var output cli.Output
	cmd := &cobra.Command{
		Use:   "inspect NAME [flags]",
		Short: "Tell who holds a lock",
		Long: `inspect asks every master what it holds under the name, and tells who holds the lock: nobody (free),
the client whose value a majority has (held), or nobody yet because no value has a majority (split:
the lock is being acquired or released, or masters were away). It changes no lock, and makes no new
master vote.

Of a shared lock it tells all readers, of a semaphore who has which permit, of an election who leads
in which term, and of all of them who waits. What the masters have noted of the name comes last, the newest five entries
(redlock log NAME has all of them).

With --json, value and owner are those of the majority; of a semaphore, look at permits. since is
when the lock was asked for (empty: unknown), and waited says that it may have waited since then.
probably is such an entry if too few masters answer, otherwise null. term is the holder's (0: it does
not lead). A ttl_ms of -1 is a key that does not expire. digest names what is there
for a release by force on the dashboard, which takes nothing else.

Exit status: 0; 69 if too few masters answer; 78 if the name is that of a key that is no string; 64
for a wrong command line.`,
		Example: `  redlock inspect nightly
  redlock inspect nightly --json
  redlock inspect nightly --nodes redis://a:6379,redis://b:6379,redis://c:6379`,
		Args: oneName("inspect"),
		RunE: func(cmd *cobra.Command, args []string) error {
			operator, err := nodes.OpenToAsk(cmd)
			if err != nil {
				return err
			}
			defer operator.Close() //nolint:errcheck // it holds no locks
			answers, err := operator.Ask(cmd.Context(), args[0])
			if len(answers.Status.Nodes) == 0 {
				return withStatus(err)
			}
			i := survey.InspectionOf(&answers)
			if misnamed := cli.Misnamed(nodes.KeyPrefix+args[0], &answers.Status); err != nil && misnamed != nil {
				// The masters have answered, and the output says what.
				i.NoLock, err = misnamed.Error(), cli.StatusError{Status: cli.ExitMisnamed}
			}
			history, _ := operator.History(cmd.Context(), args[0]) //nolint:errcheck // the masters that answered are enough
			i.AddHistory(survey.EventsOf(history, nil))
			return errors.Join(withStatus(err), output.Write(cmd, i, func(terminal.Look) []string { return tables.Inspection(&i) }))
		},
	}
	output.Add(cmd)
	nodes.Add(cmd)
	return cmd
}

// withStatus gives a missing quorum its exit status. Other errors stay as they are, except for
// usage errors.
func withStatus(err error) error {
	if errors.Is(err, redlock.ErrNoQuorum) || errors.Is(err, redlock.ErrNoValidity) {
		return cli.StatusError{Status: cli.ExitNoQuorum, Err: err}
	}
	return cli.InvalidUsage(err)
}

// ownKeys are what somebody may find at a master beside locks (docs/operations.md).
var ownKeys = []struct{ begins, what string }{
	{"redquorum:memory", "shows that the master has forgotten nothing: do not delete it"},
	{"redquorum:members", "the list of the cluster's masters: do not delete it"},
	{"redquorum:wait:", "the wait list of the lock NAME"},
	{"redquorum:waits:", "the sign that somebody waits for the lock NAME"},
	{"redquorum:others:", "the turns that other libraries have at the lock NAME"},
	{"redquorum:fence:", "the fencing counter of the lock NAME"},
	{"redquorum:adopt:", "notes that a lock is being adopted: its name and its new value are NAME"},
	{"redquorum:readers:", "the readers of the shared lock NAME"},
	{"redquorum:intent:", "the sign that a writer waits for the readers of the lock NAME"},
	{"redquorum:permits:", "the number of permits of the semaphore NAME"},
	{"redquorum:permit:wait:", "the wait list of the semaphore NAME"},
	{"redquorum:terms:", "the newest terms of the election NAME"},
	{"redquorum:log:", "the history of names: see redlock log NAME"},
	{"redquorum:log", "the log of the masters: see redlock log"},
	{"redquorum:doctor:", "what redlock doctor wrote to try the master; it expires soon"},
}

// oneName accepts exactly one name. It never shows what else it was given.
func oneName(command string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 || args[0] == "" {
			return cli.Usagef("%s takes the name of one lock; give the endpoints of masters to --nodes", command)
		}
		if err := cli.CheckName(args[0]); err != nil {
			return err
		}
		for _, own := range ownKeys {
			if name, is := strings.CutPrefix(args[0], own.begins); is {
				what := strings.ReplaceAll(own.what, "NAME", strconv.Quote(name))
				return cli.Usagef("%q is no lock, but %s", args[0], what)
			}
		}
		return nil
	}
}
