package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/masters"
	"github.com/redquorum/redquorum/internal/look"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// Bounds for asking all masters: a distant master must not count as one that does not answer.
const (
	askTTL         = 10 * time.Second
	askNodeTimeout = 2 * time.Second
)

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
			if len(told.status.Nodes) == 0 {
				return withStatus(err)
			}
			write := writeInspection
			if asJSON {
				write = cli.WriteJSON[inspection]
			}
			i := told.inspection()
			if misnamed := cli.Misnamed(nodes.KeyPrefix+args[0], &told.status); err != nil && misnamed != nil {
				// The masters have answered, and the output says what.
				i.noLock, err = misnamed.Error(), cli.StatusError{Status: cli.ExitMisnamed}
			}
			return errors.Join(withStatus(err), write(cmd.OutOrStdout(), i))
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	nodes.Add(cmd)
	return cmd
}

// askAbout asks the masters about a name.
func askAbout(cmd *cobra.Command, nodes *masters.Flags, name string) (answers, error) {
	locker, err := openToAsk(cmd, nodes)
	if err != nil {
		return answers{}, err
	}
	defer locker.Close() //nolint:errcheck // it holds no locks
	return inspect(cmd.Context(), locker, name)
}

// inspect asks once it is known which masters vote.
func inspect(ctx context.Context, locker *redlock.Locker, name string) (told answers, err error) {
	masters.AwaitVotes(ctx, clock.System(), locker)
	if told.status, err = locker.Inspect(ctx, name); err == nil {
		told.askKinds(ctx, locker, name)
	}
	told.at = clock.System().Wall()
	stats := locker.Stats()
	told.members = stats.Members
	for i := range told.status.Nodes {
		if n := &told.status.Nodes[i]; errors.Is(n.Err, pool.ErrQuarantined) && stats.Nodes[i].Barred != nil {
			n.Err = stats.Nodes[i].Barred // it says why
		}
	}
	return told, err
}

// openToAsk opens a Locker that acquires nothing, and changes nothing at the masters on its own.
func openToAsk(cmd *cobra.Command, nodes *masters.Flags) (*redlock.Locker, error) {
	return nodes.Open(cmd, askOptions(nodes, askNodeTimeout)...)
}

// askOptions are those of a Locker that acquires nothing, and changes nothing on its own.
func askOptions(nodes *masters.Flags, timeout time.Duration) []redlock.Option {
	return []redlock.Option{
		redlock.WithTTL(min(askTTL, nodes.MaxTTL)), redlock.WithNodeTimeout(timeout), redlock.OnlyLooks(look.Key{}),
	}
}

// inspection is what inspect --json prints. Its field names are documented (docs/command.md).
type inspection struct {
	Name    string `json:"name"`
	Verdict string `json:"verdict"` // free, held, split or unknown
	Value   string `json:"value"`
	Owner   string `json:"owner"`
	tenure
	Quorum  int              `json:"quorum"`
	Members int              `json:"members"` // of which that is a majority
	Nodes   []nodeInspection `json:"nodes"`

	Probably *holding `json:"probably"` // what masters that answered have, if they are too few; nil if nothing

	Kind       string    `json:"kind"`        // lock, semaphore or election
	Readers    []holding `json:"readers"`     // if the lock is shared
	Permits    []holding `json:"permits"`     // of a semaphore
	Term       int64     `json:"term"`        // of the holder, if it leads; otherwise 0
	NewestTerm int64     `json:"newest_term"` // on record, of an election; otherwise 0

	shared   bool   // readers hold it
	released bool   // what is told was before that
	noLock   string // why the key is that of no lock; empty if it may be
}

type nodeInspection struct {
	Endpoint  string   `json:"endpoint"`
	Value     string   `json:"value"`
	Owner     string   `json:"owner"`
	TTLMillis int64    `json:"ttl_ms"` // -1: does not expire
	Fence     int64    `json:"fence"`
	Waiting   int      `json:"waiting"` // processes that wait for the lock, or a permit, here
	Waiters   []string `json:"waiters"` // the owners of the oldest of them
	Error     string   `json:"error"`   // why the master did not answer
}

func (a *answers) inspection() inspection {
	i := newInspection(&a.status, a.at)
	if a.members > 0 {
		i.Members = a.members
	}
	i.addKinds(a)
	if i.Verdict == "unknown" {
		i.Probably = probably(&a.status, a.at)
	}
	return i
}

func newInspection(status *redlock.Status, now time.Time) inspection {
	i := inspection{Name: status.Name, Verdict: "split", Value: status.Value, Owner: status.Owner, Quorum: status.Quorum, Members: len(status.Nodes)}
	i.tenure = tenureOf(status.Since, now)
	answers, empty := 0, 0
	for _, n := range status.Nodes {
		node := nodeInspection{
			Endpoint: n.Endpoint, Value: n.Value, Owner: n.Owner, TTLMillis: n.TTL.Milliseconds(),
			Fence: n.Fence, Waiting: n.Waiting, Waiters: append([]string{}, n.Waiters...),
		}
		i.shared = i.shared || len(n.Readers) > 0 && n.Value == i.Value
		if n.TTL < 0 {
			node.TTLMillis = -1
		}
		if n.Err != nil {
			node.Error = cli.Readable(n.Err.Error())
		} else {
			answers++
			if n.Value == "" && n.TTL != 0 { // SET name '', by somebody
				empty++
			}
		}
		i.Nodes = append(i.Nodes, node)
	}
	switch {
	case status.Free:
		i.Verdict = "free"
	case status.Value != "" || empty >= status.Quorum:
		i.Verdict = "held"
	case answers < status.Quorum:
		i.Verdict = "unknown"
	}
	return i
}

// probably returns the value that most of the masters have that told one, although they are too few
// to decide; nil if none told one.
func probably(status *redlock.Status, now time.Time) *holding {
	counts := map[string]int{}
	var most *redlock.NodeStatus
	for i := range status.Nodes {
		n := &status.Nodes[i]
		if counts[n.Value]++; n.Value != "" && (most == nil || counts[n.Value] > counts[most.Value]) {
			most = n
		}
	}
	if most == nil {
		return nil
	}
	return &holding{
		Name: status.Name, Verdict: "unknown", Value: most.Value, Owner: most.Owner, tenure: tenureOf(most.Since, now),
		TTLMillis: max(most.TTL.Milliseconds(), -1), Fence: most.Fence, Masters: counts[most.Value],
	}
}

// sentence states the verdict.
func (i *inspection) sentence() string {
	is, have := "is", "have"
	if i.holding() == 1 {
		have = "has"
	}
	if i.released {
		is, have = "was", "had"
	}
	switch i.Verdict {
	case "free":
		return fmt.Sprintf("%q is free.", i.Name)
	case "held":
		how := "held by " + named(i.Owner)
		if i.shared {
			how = "shared by " + cli.Plural(i.held(i.Readers), "reader")
		} else if i.Term != 0 {
			how = fmt.Sprintf("led by %s in term %d", named(i.Owner), i.Term)
		}
		how += i.tenure.clause()
		return fmt.Sprintf("%q %s %s: %d of %s %s its value.", i.Name, is, how, i.holding(), cli.Plural(i.Members, "master"), have)
	case "split":
		return fmt.Sprintf("%q %s split: no value %s on %d of %s. It %s being acquired or released, or masters were away.",
			i.Name, is, is, i.Quorum, cli.Plural(i.Members, "master"), is)
	default:
		return fmt.Sprintf("Whether %q is held is unknown: fewer than %d of %d masters answered.", i.Name, i.Quorum, i.Members) +
			i.guess()
	}
}

// guess says who probably has the lock; empty if no master told of anybody.
func (i *inspection) guess() string {
	p := i.Probably
	if p == nil {
		return ""
	}
	have := "have"
	if p.Masters == 1 {
		have = "has"
	}
	return fmt.Sprintf(" Probably it is held by %s%s: %s that answered %s its value, for %s.",
		named(p.Owner), p.clause(), cli.Plural(p.Masters, "master"), have, ttlText(p.TTLMillis))
}

func (i *inspection) holding() (nodes int) {
	for _, n := range i.Nodes {
		if n.Value == i.Value {
			nodes++
		}
	}
	return nodes
}

// rows are the lines of a table of the masters. FENCE, WAITING and ERROR are left out if no master
// has any: 80 columns are then enough.
func (i *inspection) rows() string {
	table := [][]string{{"MASTER", "VALUE", "OWNER", "TTL", "FENCE", "WAITING", "ERROR"}}
	const needed = 4
	for _, n := range i.Nodes {
		value, owner, ttl, fence, waiting, problem := "-", "-", "-", "-", "-", "-"
		if n.Value != "" || n.TTLMillis != 0 {
			value, ttl = shortened(n.Value), ttlText(n.TTLMillis)
		}
		if n.Owner != "" {
			owner = printable(n.Owner)
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
func writeInspection(w io.Writer, i inspection) error {
	tables := []string{i.rows(), i.rowsOf("READER", i.Readers), i.rowsOf("PERMIT", i.Permits)}
	for _, rows := range tables {
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		if _, err := io.WriteString(table, rows); err != nil {
			return err
		}
		if err := table.Flush(); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "\n%s\n", i.sentences())
	return err
}

// shortened returns enough of a value to tell two apart. With all of it, anyone can release the
// lock.
func shortened(value string) string {
	const shown = 8
	random, _, _ := strings.Cut(value, "|")
	if len(random) <= shown {
		return printable(random)
	}
	return printable(random[:shown]) + "…"
}

// printable escapes a text that anybody may have stored, so that a terminal shows it and does not
// obey it.
func printable(text string) string {
	quoted := strconv.QuoteToGraphic(text)
	return quoted[1 : len(quoted)-1]
}

// withStatus gives a missing quorum its exit status. Other errors stay as they are, except for
// usage errors.
func withStatus(err error) error {
	if errors.Is(err, redlock.ErrNoQuorum) || errors.Is(err, redlock.ErrNoValidity) {
		return cli.StatusError{Status: cli.ExitNoQuorum, Err: err}
	}
	return cli.InvalidUsage(err)
}
