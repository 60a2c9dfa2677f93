package run

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/job"
)

// outer are the locks that the redlocks around this one hold for their commands, and so for us:
// whoever waits for one of them waits for itself. They are known by their values, which no two
// locks share: another cluster, another prefix and a lock that was lost since are none of them. The
// environment has digests of these, because whoever knows a value can release its lock.
type outer []string

func outerLocks() outer {
	return strings.FieldsFunc(os.Getenv(job.HeldVariable), func(r rune) bool { return r == ',' })
}

func digest(value string) string {
	sum := sha256.Sum256([]byte(value))
	return hex.EncodeToString(sum[:8])
}

// with returns the variable for a command below a further lock.
func (o outer) with(value string) string {
	return job.HeldVariable + "=" + strings.Join(append(slices.Clip(o), digest(value)), ",")
}

// has reports whether one of them has this value.
func (o outer) has(value string) bool { return value != "" && slices.Contains(o, digest(value)) }

// holds reports whether one of them holds a lock, alone or with other readers.
func (o outer) holds(status *admin.Status) bool {
	if !isShared(status) {
		return o.has(status.Value)
	}
	return slices.ContainsFunc(status.Nodes, func(n admin.NodeStatus) bool {
		return slices.ContainsFunc(n.Readers, func(r admin.Reader) bool { return o.has(r.Value) })
	})
}

// nestedError means that the wait would never end: the command that holds the lock waits for us.
type nestedError struct{ what string }

func (e *nestedError) Error() string {
	return fmt.Sprintf("%s held by a redlock around this one, which would wait for itself; the command can run without a second lock", e.what)
}

func nested(format string, args ...any) error {
	return cli.StatusError{Status: cli.ExitUsage, Err: &nestedError{fmt.Sprintf(format, args...)}}
}

// nested returns an error if the lock is held for this command already. Readers beside readers are
// refused only behind a writer, who waits for the first of them: refused says that it is so.
func (h *holder) nested(ctx context.Context, refused bool) error {
	if len(h.outer) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, holderBound)
	defer cancel()
	if h.flags.permits > 0 {
		status, _ := admin.Of(h.locker).InspectSemaphore(ctx, h.name) //nolint:errcheck // what is unknown is nobody's
		ours := func(slot admin.Status) bool { return h.outer.holds(&slot) }
		if len(status.Slots) >= h.flags.permits && !slices.ContainsFunc(status.Slots, func(slot admin.Status) bool { return !ours(slot) }) {
			return nested("all permits of %q are", h.name)
		}
		return nil
	}
	status, _ := admin.Of(h.locker).Inspect(ctx, h.name) //nolint:errcheck // as above
	if shares := h.flags.shared && isShared(&status); h.outer.holds(&status) && (!shares || refused) {
		return nested("lock %q is", h.name)
	}
	return nil
}
