package tasks

import (
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/terminal"
	"github.com/redquorum/redquorum/internal/prose"
	"github.com/redquorum/redquorum/queue"
	"github.com/redquorum/redquorum/queue/backlog"
	"github.com/redquorum/redquorum/redlock"
)

func newListCommand() *cobra.Command {
	f := flags{}
	var output cli.Output
	limit := 20
	cmd := &cobra.Command{
		Use:   "list NAME [flags]",
		Short: "Tell how many tasks a queue has, which are due, and which are dead",
		Long: `list counts the tasks of a queue: waiting are not due yet, due are those that no worker has taken,
running are leased by a worker, and dead have used up their attempts. It names the first that are
due, and the dead that died last, with the errors of their attempts. It asks the store alone, and
changes nothing.

With --json, due_tasks and dead_letters have what is named, and errors of a letter are newest first.`,
		Example: `  redlock queue list orders
  redlock queue list orders --json | jq -r '.dead_letters[].id'`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return cli.Usagef("queue list takes the name of one queue")
			}
			return named(0, "")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 1 || limit > 2000 {
				return cli.Usagef("--limit: %d is not between 1 and 2000", limit)
			}
			return f.open(cmd, args[0], func(_ *redlock.Locker, q *queue.Queue) error {
				s, err := backlog.Look(cmd.Context(), q, args[0], limit, limit) // the store has a timeout of its own
				if err != nil {
					return err
				}
				return output.Write(cmd, s, func(terminal.Look) []string { return lines(&s) })
			}, admin.OnlyLooks())
		},
	}
	cmd.Flags().IntVar(&limit, "limit", limit, "name so `many` that are due, and dead, at most")
	output.Add(cmd)
	f.add(cmd)
	return cmd
}

// lines are a line of counts, and a table of each kind.
func lines(v *backlog.Status) []string {
	lines := []string{fmt.Sprintf("%d waiting, %d due, %d running, %d dead", v.Waiting, v.Due, v.Running, v.Dead)}
	due := terminal.Table{Heading: []string{"DUE", "SINCE", "ATTEMPTS", "PAYLOAD"}, Numbers: []int{2}}
	for _, t := range v.Tasks {
		due.Rows = append(due.Rows, []string{prose.Printable(t.ID), t.Due.Format(time.RFC3339), strconv.Itoa(t.Attempts), short(t.Payload)})
	}
	dead := terminal.Table{Heading: []string{"DEAD", "DIED", "ATTEMPTS", "ERROR"}, Numbers: []int{2}}
	for _, l := range v.Letters {
		text := "-"
		if len(l.Errors) > 0 {
			text = short(l.Errors[0].Text)
		}
		dead.Rows = append(dead.Rows, []string{prose.Printable(l.ID), l.Died.Format(time.RFC3339), strconv.Itoa(l.Attempts), text})
	}
	for _, table := range []terminal.Table{due, dead} {
		if len(table.Rows) > 0 {
			lines = append(append(lines, ""), table.Lines(terminal.Unlimited)...)
		}
	}
	return lines
}

// short returns a text that fits into a table.
func short(text string) string {
	const most = 60
	runes := []rune(prose.Printable(text))
	switch {
	case len(runes) == 0:
		return "-"
	case len(runes) > most:
		return string(runes[:most-1]) + "…"
	default:
		return string(runes)
	}
}
