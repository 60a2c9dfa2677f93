package run

import (
	"errors"
	"fmt"
	"strings"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/job"
	"github.com/redquorum/redquorum/internal/door"
	"github.com/redquorum/redquorum/internal/journal"
	"github.com/redquorum/redquorum/internal/owner"
	"github.com/redquorum/redquorum/redlock"
)

// What becomes of a run is noted at the masters (redlock log NAME), by the library and in its
// background. The notes are not those of WithHistory: a run knows of the command and its end.

// runNotes notes one run.
type runNotes struct {
	*runner
	run journal.Entry
}

// noteBegan notes that the command runs under a lock with that value.
func (r *runner) noteBegan(value string) runNotes {
	holder, _, _ := owner.Of(value)
	n := runNotes{r, journal.Entry{ID: journal.RunID(value), Kind: journal.Began, Holder: holder, BeganMillis: r.clock.Wall().UnixMilli()}}
	r.note(n.run)
	return n
}

// left notes that the command has ended, and what it left running has the lock. The run itself has
// not ended: nothing else at the masters would tell that it is not at work.
func (n runNotes) left(status int, what string) {
	now := n.run
	now.Status, now.Why = &status, "the command has ended, and what it left running has the lock"+what
	n.note(now)
}

// ended notes the end.
func (n runNotes) ended(result job.Result) {
	end := n.run
	end.Why = result.Why
	switch {
	case result.Cut:
		end.Kind, end.Why = journal.Cut, "--max-hold"
	case result.Lost:
		end.Kind = journal.Lost
	default:
		end.Kind, end.Status = journal.Ran, &result.Status
		if result.Asked != nil && end.Why == "" {
			end.Why = fmt.Sprintf("asked to end: %v", result.Asked)
		}
	}
	n.note(end)
}

// noteMiss notes why the command did not run.
func (r *runner) noteMiss(err error) {
	e := journal.Entry{Kind: journal.Missed}
	if errors.Is(err, redlock.ErrNoQuorum) {
		e.Kind = journal.NoQuorum
	}
	e.Why = strings.ReplaceAll(cli.Explain(err, r.locker.Stats().Nodes...), "\n  ", "; ")
	r.noteMissed(e)
}

func (r *runner) noteMissed(e journal.Entry) {
	e.BeganMillis = r.began.UnixMilli()
	r.note(e)
}

func (r *runner) note(e journal.Entry) { door.Of(r.locker).Note(r.name, e) }

// noteRefused notes who had the lock instead.
func (h *holder) noteRefused(t tenant) {
	e := journal.Entry{Kind: journal.Refused, Holder: t.owner}
	if !t.since.Time.IsZero() {
		e.SinceMillis = t.since.Time.UnixMilli()
	}
	var why []string
	if t.readers {
		why = append(why, "by readers")
	}
	if h.flags.permits > 0 {
		why = append(why, fmt.Sprintf("all %d permits are taken", h.flags.permits))
	}
	if h.flags.noWait {
		why = append(why, "skipped")
	}
	e.Why = strings.Join(why, "; ")
	h.noteMissed(e)
}
