package survey

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/journal"
	"github.com/redquorum/redquorum/internal/prose"
	"github.com/redquorum/redquorum/redlock"
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

// Force deletes a lock on every master, whoever holds it, and has the masters note the reason. If
// it fails, and any master has told of the lock, the Release has its Nodes. The error is that of
// the deletion, [ErrSemaphore], or says that the name is that of somebody's data.
func Force(ctx context.Context, locker *redlock.Locker, prefix, name, reason string) (r Release, err error) {
	// Delete the lock even if its status is unknown: the error of the deletion says more.
	told, err := Ask(ctx, locker, name)
	if len(told.Status.Nodes) == 0 {
		return r, err
	}
	if err := checkIsLock(prefix+name, &told.Status); err != nil {
		return r, err
	}
	r.Inspection = told.Inspection()
	if r.Kind == KindSemaphore && r.Verdict == "free" {
		return r, fmt.Errorf("%q %w: give the name of one of its permits, such as %q", name, ErrSemaphore, r.Permits[0].Name)
	}
	taken, err := locker.Journal(journal.Key{}).Force(ctx, name, reason)
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
func checkIsLock(key string, status *redlock.Status) error {
	is, at := "", []string{}
	has := 0
	for _, n := range status.Nodes {
		switch {
		case prose.IsWrongType(n.Err):
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
