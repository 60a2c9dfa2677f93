package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/masters"
	"github.com/redquorum/redquorum/cmd/redlock/internal/terminal"
	"github.com/redquorum/redquorum/internal/survey"
	"github.com/redquorum/redquorum/redlock"
)

// askNodeTimeout bounds an answer: a distant master must not count as one that does not answer.
const askNodeTimeout = 2 * time.Second

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
in which term, and of all of them who waits.

Exit status: 0; 69 if too few masters answer; 78 if the name is that of a key that is no string; 64
for a wrong command line.`,
		Example: `  redlock inspect nightly
  redlock inspect nightly --json
  redlock inspect nightly --nodes redis://a:6379,redis://b:6379,redis://c:6379`,
		Args: oneName("inspect"),
		RunE: func(cmd *cobra.Command, args []string) error {
			locker, err := openToAsk(cmd, &nodes)
			if err != nil {
				return err
			}
			defer locker.Close() //nolint:errcheck // it holds no locks
			told, err := survey.Ask(cmd.Context(), locker, args[0])
			if len(told.Status.Nodes) == 0 {
				return withStatus(err)
			}
			i := told.Inspection()
			if misnamed := cli.Misnamed(nodes.KeyPrefix+args[0], &told.Status); err != nil && misnamed != nil {
				// The masters have answered, and the output says what.
				i.NoLock, err = misnamed.Error(), cli.StatusError{Status: cli.ExitMisnamed}
			}
			return errors.Join(withStatus(err), output.Write(cmd, i, func(terminal.Look) []string { return inspectionText(&i) }))
		},
	}
	output.Add(cmd)
	nodes.Add(cmd)
	return cmd
}

// openToAsk opens a Locker that acquires nothing, and changes nothing at the masters on its own.
func openToAsk(cmd *cobra.Command, nodes *masters.Flags) (*redlock.Locker, error) {
	return nodes.Open(cmd, survey.AskOptions(nodes.MaxTTL, askNodeTimeout)...)
}

// withStatus gives a missing quorum its exit status. Other errors stay as they are, except for
// usage errors.
func withStatus(err error) error {
	if errors.Is(err, redlock.ErrNoQuorum) || errors.Is(err, redlock.ErrNoValidity) {
		return cli.StatusError{Status: cli.ExitNoQuorum, Err: err}
	}
	return cli.InvalidUsage(err)
}
