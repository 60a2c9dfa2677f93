package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/masters"
	"github.com/redquorum/redquorum/internal/prose"
	"github.com/redquorum/redquorum/internal/survey"
	"github.com/redquorum/redquorum/redlock"
)

// askNodeTimeout bounds an answer: a distant master must not count as one that does not answer.
const askNodeTimeout = 2 * time.Second

func newInspectCommand() *cobra.Command {
	var nodes masters.Flags
	var asJSON bool
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
			told, err := askAbout(cmd, &nodes, args[0])
			if len(told.Status.Nodes) == 0 {
				return withStatus(err)
			}
			write := writeInspection
			if asJSON {
				write = prose.WriteJSON[survey.Inspection]
			}
			i := told.Inspection()
			if misnamed := cli.Misnamed(nodes.KeyPrefix+args[0], &told.Status); err != nil && misnamed != nil {
				// The masters have answered, and the output says what.
				i.NoLock, err = misnamed.Error(), cli.StatusError{Status: cli.ExitMisnamed}
			}
			return errors.Join(withStatus(err), write(cmd.OutOrStdout(), i))
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	nodes.Add(cmd)
	return cmd
}

// askAbout asks the masters about a name.
func askAbout(cmd *cobra.Command, nodes *masters.Flags, name string) (survey.Answers, error) {
	locker, err := openToAsk(cmd, nodes)
	if err != nil {
		return survey.Answers{}, err
	}
	defer locker.Close() //nolint:errcheck // it holds no locks
	return survey.Ask(cmd.Context(), locker, name)
}

// openToAsk opens a Locker that acquires nothing, and changes nothing at the masters on its own.
func openToAsk(cmd *cobra.Command, nodes *masters.Flags) (*redlock.Locker, error) {
	return nodes.Open(cmd, survey.AskOptions(nodes.MaxTTL, askNodeTimeout)...)
}

// rowsOfMasters are the lines of a table of the masters. FENCE, WAITING and ERROR are left out if
// no master has any: 80 columns are then enough.
func rowsOfMasters(i *survey.Inspection) string {
	table := [][]string{{"MASTER", "VALUE", "OWNER", "TTL", "FENCE", "WAITING", "ERROR"}}
	const needed = 4
	for _, n := range i.Nodes {
		value, owner, ttl, fence, waiting, problem := "-", "-", "-", "-", "-", "-"
		if n.Value != "" || n.TTLMillis != 0 {
			value, ttl = survey.Shortened(n.Value), survey.TTLText(n.TTLMillis)
		}
		if n.Owner != "" {
			owner = prose.Printable(n.Owner)
		}
		if n.Fence != 0 {
			fence = strconv.FormatInt(n.Fence, 10)
		}
		if n.Waiting != 0 {
			waiting = strconv.Itoa(n.Waiting)
		}
		if n.Error != "" {
			problem = n.Error
		}
		table = append(table, []string{n.Endpoint, value, owner, ttl, fence, waiting, problem})
	}
	for column := len(table[0]) - 1; column >= needed; column-- {
		if slices.ContainsFunc(table[1:], func(row []string) bool { return row[column] != "-" }) {
			continue
		}
		for n := range table {
			table[n] = slices.Delete(table[n], column, column+1)
		}
	}
	var rows strings.Builder
	for _, row := range table {
		rows.WriteString(strings.Join(row, "\t") + "\n")
	}
	return rows.String()
}

// writeInspection writes a table with a line per master, and the verdict.
func writeInspection(w io.Writer, i survey.Inspection) error {
	tables := []string{rowsOfMasters(&i), rowsOf(&i, "READER", i.Readers), rowsOf(&i, "PERMIT", i.Permits)}
	for _, rows := range tables {
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		if _, err := io.WriteString(table, rows); err != nil {
			return err
		}
		if err := table.Flush(); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "\n%s\n", i.Sentences())
	return err
}

// withStatus gives a missing quorum its exit status. Other errors stay as they are, except for
// usage errors.
func withStatus(err error) error {
	if errors.Is(err, redlock.ErrNoQuorum) || errors.Is(err, redlock.ErrNoValidity) {
		return cli.StatusError{Status: cli.ExitNoQuorum, Err: err}
	}
	return cli.InvalidUsage(err)
}

// rowsOf are the lines of a table of permits or readers. What is free has none.
func rowsOf(i *survey.Inspection, heading string, holdings []survey.Holding) string {
	var rows strings.Builder
	for _, h := range holdings {
		if h.Verdict == "free" {
			continue
		}
		name, fence := h.Name, "-"
		if heading == "READER" {
			name = survey.Shortened(h.Value)
		}
		if h.Fence != 0 {
			fence = strconv.FormatInt(h.Fence, 10)
		}
		owner := survey.Named(h.Owner)
		if h.Verdict != "held" {
			owner = h.Verdict
		}
		fmt.Fprintf(&rows, "%s\t%s\t%s\t%s\t%s\t%d of %d\n", prose.Printable(name), owner, h.Short(), survey.TTLText(h.TTLMillis), fence, h.Masters, i.Members)
	}
	if rows.Len() == 0 {
		return ""
	}
	return "\n" + heading + "\tOWNER\tHELD\tTTL\tFENCE\tMASTERS\n" + rows.String()
}
