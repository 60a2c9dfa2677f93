package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/admin/survey"
	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/job"
	"github.com/redquorum/redquorum/internal/journal"
)

// holderBound bounds the wait for the name of the holder.
const holderBound = time.Second

// tenant is who has a lock, and for how long: of several, who has had it for longest.
type tenant struct {
	held    bool
	readers bool
	value   string
	owner   string // empty if the value does not tell, such as that of another library
	since   admin.Since
}

// tenantOf returns who has a lock by what the masters tell; of several locks, whoever got one
// first. What is not known is empty.
func tenantOf(locks ...admin.Status) (first tenant) {
	add := func(value, owner string, since admin.Since) {
		earlier := !since.Time.IsZero() && (first.since.Time.IsZero() || since.Time.Before(first.since.Time))
		if !first.held || earlier {
			first.value, first.owner, first.since, first.held = value, owner, since, true
		}
	}
	for i := range locks {
		status := &locks[i]
		switch {
		case isShared(status):
			first.readers = true
			for _, n := range status.Nodes {
				for _, r := range n.Readers {
					add(r.Value, r.Owner, r.Since)
				}
			}
		case status.Value != "":
			add(status.Value, status.Owner, status.Since)
		}
	}
	return first
}

// isShared reports whether readers hold a lock.
func isShared(status *admin.Status) bool {
	return slices.ContainsFunc(status.Nodes, func(n admin.NodeStatus) bool {
		return len(n.Readers) > 0 && n.Value == status.Value
	})
}

// holder returns the tenant for messages; nil if it is not known who that is.
func (t tenant) holder(now time.Time) *job.Holder {
	if t.owner == "" {
		return nil
	}
	return &job.Holder{Owner: t.owner, Tenure: survey.TenureOf(t.since, now)}
}

// by names the holder and since when, behind a word that leads to it; empty if it is unknown.
func by(lead string, h *job.Holder) string {
	if h == nil {
		return ""
	}
	return lead + strconv.QuoteToGraphic(h.Owner) + h.Clause()
}

// tenant asks who has the lock, or the permits. What cannot be told in time is left out.
func (h *holder) tenant(ctx context.Context) tenant {
	ctx, cancel := context.WithTimeout(ctx, holderBound)
	defer cancel()
	if h.flags.permits > 0 {
		status, _ := admin.Of(h.locker).InspectSemaphore(ctx, h.name) //nolint:errcheck // see above
		return tenantOf(status.Slots...)
	}
	status, _ := admin.Of(h.locker).Inspect(ctx, h.name) //nolint:errcheck // see above
	return tenantOf(status)
}

// outlived says so, behind a semicolon, if the command of a tenant has ended, and what it left
// running has the lock: the first thing that people ask of a job that is skipped again and again.
func (h *holder) outlived(ctx context.Context, t tenant) string {
	ctx, cancel := context.WithTimeout(ctx, holderBound)
	defer cancel()
	told, _ := admin.Of(h.locker).History(ctx, h.name) //nolint:errcheck // as above
	for _, e := range told {
		if e.Kind == admin.KindBegan && e.Status != nil && e.ID == journal.RunID(t.value) {
			return "; " + e.Why
		}
	}
	return ""
}

// taken reports that somebody else has the lock, and returns the exit status as an error. A holder
// that is too old is a failure whatever the flags say of conflicts: something hangs.
func (h *holder) taken(ctx context.Context) error {
	t := h.tenant(ctx)
	h.noteRefused(t)
	about := t.holder(h.clock.Wall())
	text := fmt.Sprintf("lock %q is taken", h.name)
	switch {
	case h.flags.permits > 0:
		text = fmt.Sprintf("all permits of %q are taken", h.name) + by(", the first by ", about)
	case t.readers && h.flags.shared:
		text = fmt.Sprintf("lock %q is shared, and a writer waits for it", h.name) + by("; its first reader is ", about)
	case t.readers:
		text += " by readers" + by(", the first of them ", about)
	default:
		text += by(" by ", about)
	}
	if h.flags.wait > 0 {
		text += fmt.Sprintf(", and was for the last %v", h.flags.wait)
	}
	if h.flags.replace {
		text += ", although it was asked to end"
	}
	event, status := job.Taken, h.flags.conflictStatus
	if age := h.flags.stale; age > 0 && about != nil && about.HeldMillis >= age.Milliseconds() {
		event, status = "stale", cli.ExitTaken
		text += fmt.Sprintf(": for longer than --stale %v", age)
	}
	if !h.quiet || event != job.Taken {
		text += h.outlived(ctx, t)
	}
	return h.messages.About(about).End(event, cli.StatusError{Status: status, Err: errors.New(text)})
}
