package survey

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/prose"
	"github.com/redquorum/redquorum/internal/trouble"
)

// Release is what unlock --json prints. Its field names are documented (redlock help unlock).
type Release struct {
	Inspection        // before
	KnownBy    string `json:"known_by"` // until then the holder may go on; empty if nobody held it
	Logged     bool   `json:"logged"`   // a majority of the masters has a line of it

	Left     time.Duration `json:"-"` // until KnownBy
	Unlogged error         `json:"-"` // why the log does not tell of it; nil if it does
}

// ErrSemaphore says that a name is that of a semaphore, which is no lock: its permits are.
var ErrSemaphore = errors.New("is a semaphore")

// ChangedError says that a lock is not any more what it was when somebody decided to take it away.
type ChangedError struct{ Now Inspection }

// Error says who holds it.
func (e *ChangedError) Error() string {
	return "it has changed since it was looked at: " + e.Now.sentence()
}

// seen returns what a release by force may take away, as the inspection tells it: the value that is
// held, or all that is there if none is. It is never empty.
func (i *Inspection) seen() (values []string) {
	if i.Verdict == "held" {
		return []string{i.Value}
	}
	for _, n := range i.Nodes {
		if n.TTLMillis != 0 && !slices.Contains(values, n.Value) {
			values = append(values, n.Value)
		}
	}
	slices.Sort(values)
	if len(values) == 0 {
		return []string{""}
	}
	return values
}

// digest names what is seen without telling it: with the values, anyone could release the lock.
// Readers have one value in common, so theirs count as well.
func (i *Inspection) digest() string {
	values := i.seen()
	for _, r := range i.Readers { // in order
		values = append(values, r.Value)
	}
	return digestOf(values...)
}

func digestOf(values ...string) string {
	all := sha256.New()
	for _, value := range values {
		_, _ = fmt.Fprintf(all, "%d:%s", len(value), value) //nolint:errcheck // a hash takes all
	}
	return hex.EncodeToString(all.Sum(nil)[:16])
}

// Digest is that of an inspection of the permit; empty if nobody has it.
func (h *Holding) Digest() string {
	if h.Verdict != "held" {
		return ""
	}
	return digestOf(h.Value)
}

// Force deletes a lock on every master, and has the masters note the reason. If a digest is given,
// it deletes nothing but what an inspection with that digest has told. Without one it deletes what
// it finds, and tells, whoever holds it. The masters compare: what has changed in the last moment
// stays, but for readers that have just come.
//
// If it fails, and any master has told of the lock, the Release has its Nodes. The error is that of
// the deletion, [ErrSemaphore], a [*ChangedError], or says that the name is that of somebody's
// data.
func Force(ctx context.Context, operator *admin.Operator, prefix, name, digest, reason string) (r Release, err error) {
	// Delete the lock even if its status is unknown: the error of the deletion says more.
	told, err := operator.Ask(ctx, name)
	if len(told.Status.Nodes) == 0 {
		return r, err
	}
	if err := checkIsLock(prefix+name, &told.Status); err != nil {
		return r, err
	}
	r.Inspection = InspectionOf(&told)
	if r.Kind == KindSemaphore && r.Verdict == "free" {
		return r, fmt.Errorf("%q %w: give the name of one of its permits, such as %q", name, ErrSemaphore, r.Permits[0].Name)
	}
	if digest != "" && digest != r.Digest {
		return r, &ChangedError{r.Inspection}
	}
	taken, err := operator.Because(reason).Force(ctx, name, r.seen()...)
	if errors.Is(err, admin.ErrChanged) {
		now, _ := operator.Ask(ctx, name) //nolint:errcheck // then nobody knows who holds it
		return r, &ChangedError{InspectionOf(&now)}
	}
	r.Left, r.Unlogged, r.Released = taken.Left, taken.Unlogged, err == nil
	if r.Logged = err == nil && taken.Value != "" && taken.Unlogged == nil; taken.Value != "" {
		r.KnownBy = clock.System().Wall().Add(r.Left).UTC().Format(time.RFC3339)
	}
	return r, err
}

// Result says what a release that succeeded did.
func (r *Release) Result() string {
	switch {
	case r.Verdict != "free":
		return fmt.Sprintf("Released: the next client can acquire it.\nIts holder, if there still is one, knows by %s, in %v: until then it may go on.",
			r.KnownBy, r.Left.Round(time.Second))
	case r.IsThere():
		return "Nobody held it. What was left of it is deleted."
	default:
		return "Nothing to release."
	}
}

// checkIsLock returns an error if any master has something under a key that can be no lock:
// somebody else's data.
func checkIsLock(key string, status *admin.Status) error {
	is, at := "", []string{}
	has := 0
	for _, n := range status.Nodes {
		switch {
		case trouble.Of(n.Err) == trouble.NoString:
			is = prose.NoString
		case n.TTL < 0:
			is = prose.Lasting
		case n.TTL > 0:
			has++
			continue
		default:
			continue
		}
		at = append(at, n.Endpoint)
	}
	if is == "" {
		return nil
	}
	where := ""
	if has > 0 {
		where = " on " + strings.Join(at, ", ")
	}
	return fmt.Errorf("%q %s%s: it is no lock of ours. If it is yours, delete it with DEL", key, is, where)
}
