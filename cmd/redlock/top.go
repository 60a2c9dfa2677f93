package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/admin/survey"
	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/masters"
	"github.com/redquorum/redquorum/cmd/redlock/internal/top"
	"github.com/redquorum/redquorum/internal/prose"
	"github.com/redquorum/redquorum/redlock"
)

const (
	// shortestInterval keeps top from being a load.
	shortestInterval = 200 * time.Millisecond

	// topTimeout is how long to wait for an answer: until then, what is shown is old.
	topTimeout = time.Second
)

func newTopCommand() *cobra.Command {
	var nodes masters.Flags
	var allowForce bool
	interval := 2 * time.Second
	query := admin.Query{Keys: 10_000, Locks: 200, Bound: listBound}
	cmd := &cobra.Command{
		Use:   "top [PATTERN] [flags]",
		Short: "Watch locks and masters on the terminal",
		Long: `top shows what list shows, and the state of the masters, again --interval after each look. Locks that
somebody waits for come first, then those that nobody holds in full. ? shows the keys: to scroll,
sort, filter, and look at one lock. With --allow-force it also takes a lock from its holder, as
unlock does, once the name and a reason have been typed.

Of each master it shows whether it votes, a round trip, the commands that it executes per second
(for all of its clients, top included), its keys and its connections. "New holders" counts what
was different from one look to the next: a lock may have changed hands more often.

Each look costs the masters what list costs, so --scan and --limit are smaller. top needs the rights
that list needs, and a terminal; NO_COLOR is respected.

Exit status: 0; 64 for a wrong command line, and without a terminal.`,
		Example: `  redlock top
  redlock top 'orders/*' --key-prefix app: --interval 500ms`,
		Args: func(_ *cobra.Command, args []string) error { return onePattern("top", args) },
		RunE: func(cmd *cobra.Command, args []string) error {
			if interval < shortestInterval {
				return cli.Usagef("--interval: %v is shorter than %v", interval, shortestInterval)
			}
			if !top.CanShow(cmd.InOrStdin(), cmd.OutOrStdout()) {
				return top.ErrNoTerminal
			}
			operator, err := openToList(cmd, &nodes, topTimeout)
			if err != nil {
				return err
			}
			defer operator.Close() //nolint:errcheck // it holds no locks
			query.Pattern = patternOf(args)
			w := watcher{operator: operator, query: query, clock: clock.System()}
			c := top.Config{Title: prose.Printable(strings.Join(append([]string{"redlock top"}, args...), " ")), Interval: interval, Look: w.look}
			if allowForce {
				c.Force = func(ctx context.Context, name, digest, reason string) (survey.Release, error) {
					return survey.Force(ctx, operator, nodes.KeyPrefix, name, digest, reason)
				}
			}
			return top.Show(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), c)
		},
	}
	cmd.Flags().DurationVar(&interval, "interval", interval, "time between two looks")
	cmd.Flags().BoolVar(&allowForce, "allow-force", false, "locks can be taken from their holders, as unlock does")
	addBounds(cmd, &query)
	nodes.Add(cmd)
	return cmd
}

// watcher looks at locks and masters again and again.
type watcher struct {
	operator *admin.Operator
	query    admin.Query
	clock    clock.Clock

	looked clock.Instant   // when; of the last look
	known  map[string]bool // the holders that were seen then; nil before the first look
}

// look asks the masters once: about all locks, or one.
func (w *watcher) look(ctx context.Context, name string) top.Snapshot {
	if name != "" {
		s := top.Snapshot{}
		told, _ := w.operator.AskAll(ctx, []string{name}, nil) //nolint:errcheck // it says what each master answered
		for i := range told {
			s.Locks = append(s.Locks, survey.InspectionOf(&told[i]))
		}
		s.At = w.clock.Wall()
		return s
	}
	// Not at the same time as the list: what queues before a PING adds to its round trip.
	vitals := w.operator.Vitals(ctx)
	told, err := w.operator.Scan(ctx, w.query)
	list := survey.ListingOf(&told, "")
	s := top.Snapshot{At: w.clock.Wall(), Count: list.Count() + w.rate(list.Locks), Locks: list.Locks}
	switch failure := failure(&list); {
	case failure != nil:
		s.Problem = failure.Error()
	case err != nil:
		s.Problem = "too few masters vote: who holds a lock is unknown"
	}
	if s.Problem == "" {
		s.Notes = append(list.Bounded(), list.Missing()...)
	}
	for i, n := range w.operator.Stats().Nodes {
		if i < len(vitals) && !admin.HasLeft(&n) { // one may have joined since
			s.Masters = append(s.Masters, masterOf(&n, vitals[i]))
		}
	}
	return s
}

// rate says how many holders are new since the last look, and remembers those of this one.
func (w *watcher) rate(locks []survey.Inspection) string {
	now, before := w.clock.Now(), w.looked
	holders, fresh := map[string]bool{}, 0
	for i := range locks {
		for _, value := range locks[i].Values() {
			holders[value] = true
			if !w.known[value] {
				fresh++
			}
		}
	}
	first := w.known == nil
	w.looked, w.known = now, holders
	if first || now <= before {
		return ""
	}
	return fmt.Sprintf(" New holders: at least %.1f/s.", float64(fresh)/now.Sub(before).Seconds())
}

// masterOf describes a master.
func masterOf(n *redlock.NodeStats, vitals admin.Vitals) top.Master {
	m := top.Master{Endpoint: n.Endpoint, Vitals: vitals, Server: cmp.Or(prose.Printable(strings.TrimSpace(n.Product+" "+n.Version)), "-")}
	if m.State, m.Why = survey.Standing(n); m.State == survey.MemberVotes && vitals.Err != nil {
		m.Why = prose.Readable(vitals.Err.Error())
	}
	return m
}
