package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/cmd/redlock/internal/job"
	"github.com/redquorum/redquorum/cmd/redlock/internal/masters"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

const (
	// errorBound bounds how long a quorum of masters may answer with errors, unless --wait gives
	// another bound: an ACL or a full memory does not mend itself.
	errorBound = 5 * time.Second
)

// watch sees why a wait takes long, and says it.
type watch struct {
	clock clock.Clock

	mu       sync.Mutex // guards the fields below
	last     error      // the last failure; nil before
	since    clock.Instant
	refusals map[string]error // by endpoint, since a quorum last answered without an error
}

func newWatch(clk clock.Clock) *watch { return &watch{clock: clk, refusals: map[string]error{}} }

// failed takes the failure of an attempt (redlock.Hooks). A waiter asks one master at a time, so
// the refusals of several attempts count together.
func (w *watch) failed(_ string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = err
	if errors.Is(err, redlock.ErrTaken) {
		clear(w.refusals)
		return
	}
	if len(w.refusals) == 0 {
		w.since = w.clock.Now()
	}
	maps.Copy(w.refusals, refusalsIn(err))
}

// refusalsIn returns the errors that masters answered with.
func refusalsIn(err error) map[string]error {
	refusals := map[string]error{}
	var failure *redlock.QuorumError
	if !errors.As(err, &failure) {
		return refusals
	}
	for _, node := range failure.Nodes {
		var call *pool.CallError
		if errors.As(node, &call) && call.Fate == pool.Refused {
			refusals[node.Endpoint] = node
		}
	}
	return refusals
}

// permanentError ends a wait: what it is for will not come.
type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }

// refusedError means that a quorum of masters has answered with errors for too long.
type refusedError struct{ refusals []error }

func (e *refusedError) Error() string {
	lines := []string{fmt.Sprintf("no quorum: for %v, masters have answered with errors", errorBound)}
	for _, refusal := range e.refusals {
		lines = append(lines, refusal.Error())
	}
	return strings.Join(lines, "\n  ")
}

// refused returns an error once a quorum of so many masters has answered with errors for too long.
func (w *watch) refused(masters int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.refusals) <= masters/2 || w.clock.Now().Sub(w.since) < errorBound {
		return nil
	}
	e := &refusedError{}
	for _, endpoint := range slices.Sorted(maps.Keys(w.refusals)) {
		e.refusals = append(e.refusals, w.refusals[endpoint])
	}
	return e
}

// taken reports whether a quorum refused the last attempt.
func (w *watch) taken() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return errors.Is(w.last, redlock.ErrTaken)
}

// silence returns the last failure if no quorum answered.
func (w *watch) silence() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if errors.Is(w.last, redlock.ErrNoQuorum) {
		return w.last
	}
	return nil
}

// watchWait says now and then what a wait is for, until ctx ends. It ends the wait if a quorum of
// masters answers with errors only, and --wait gives no bound, or if the name is that of no lock.
func (h *holder) watchWait(ctx context.Context, end context.CancelCauseFunc) {
	began := h.clock.Now()
	say, pause, well := began.Add(sayFirst), sayAgain, began
	var misnamed error
	for clock.Sleep(ctx, h.clock, sayFirst) {
		now := h.clock.Now()
		if h.unready() == nil && (now >= say || misnamed != nil) {
			misnamed = h.misnamed(ctx)
		}
		if misnamed == nil {
			well = now
		} else if now.Sub(well) >= errorBound {
			end(&permanentError{misnamed})
			return
		}
		if err := h.nested(ctx, h.watch.taken()); err != nil {
			end(&permanentError{err})
			return
		}
		if err := h.watch.refused(h.locker.Stats().Members); err != nil && h.flags.wait == 0 {
			end(&permanentError{err})
			return
		}
		if now >= say {
			if !h.quiet {
				why, about := h.whyWaiting(ctx, misnamed)
				h.messages.About(about).Say("waiting", "waiting for %s%s%s", h.wanted(), why, soFar(now.Sub(began)))
			}
			if now.Sub(began) >= sayAgain {
				pause = min(2*pause, sayLongest)
			}
			say = now.Add(pause)
		}
	}
}

// wanted names what run waits for.
func (h *holder) wanted() string {
	if h.flags.permits > 0 {
		return fmt.Sprintf("one of %d permits of %q", h.flags.permits, h.name)
	}
	return fmt.Sprintf("lock %q", h.name)
}

// whyWaiting says who holds the lock, or why nobody can.
func (h *holder) whyWaiting(ctx context.Context, misnamed error) (why string, about *job.Holder) {
	if misnamed != nil {
		return ", but " + misnamed.Error(), nil
	}
	if err := cmp.Or(h.unready(), h.watch.silence()); err != nil {
		return h.noQuorum(err), nil
	}
	t := h.tenant(ctx)
	about = t.holder(h.clock.Wall())
	left := h.outlived(ctx, t)
	switch {
	case h.flags.permits > 0:
		return ", which are all taken" + by(", the first by ", about) + left, about
	case t.readers:
		return ", held by readers" + by(", the first of them ", about) + left, about
	case t.held && about == nil:
		return ", which is taken", nil
	default:
		return by(", held by ", about) + left, about
	}
}

// sayDegraded says which masters do not vote, although the lock can be had without them: the next
// one that fails may be one too many. It says so again only if there are more of them. Masters that
// have not answered yet, and those of a new cluster, are among them only at the end, when they have
// had a moment for it.
func (h *holder) sayDegraded(end bool) {
	stats := h.locker.Stats()
	lacking := slices.DeleteFunc(slices.Clone(stats.Nodes), func(n redlock.NodeStats) bool {
		soon := n.State == pool.Connecting && n.Err == nil || errors.Is(n.Barred, pool.ErrQuarantined)
		return admin.Votes(&n) || soon && !end
	})
	if len(lacking) <= h.saidDegraded {
		return
	}
	h.saidDegraded = len(lacking)
	h.messages.Say("degraded", "no vote from %d of %d masters (a quorum takes %d): %s",
		len(lacking), len(stats.Nodes), stats.Quorum, masters.Causes(lacking))
}

// answerTime is a moment that is long enough for a master to connect and to get its vote.
const answerTime = 100 * time.Millisecond

// awaitVotes gives masters the moment, from the acquisition on. It returns at once if all vote.
func (h *holder) awaitVotes(acquired clock.Instant) {
	all := func() bool {
		return !slices.ContainsFunc(h.locker.Stats().Nodes, func(n redlock.NodeStats) bool { return !admin.Votes(&n) })
	}
	for !all() && h.clock.Now().Sub(acquired) < answerTime {
		clock.Sleep(context.Background(), h.clock, answerTime/10)
	}
}
