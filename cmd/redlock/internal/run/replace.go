package run

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/internal/owner"
	"github.com/redquorum/redquorum/redlock"
)

// A run with --replace waits in the line like any other. Its owner there says whom it asks to end:
//
//	deploy@b:77 redlock run php cron.php, to replace 0123456789abcdef
//
// The digits are the digest of the value that has the lock. The run of that value looks at who
// waits now and then, and ends its command as if somebody had sent it SIGTERM. When all of the
// command has ended, it releases the lock as ever.
//
// Nobody gets the lock by asking, and no vote depends on it: the next run begins with a lock of
// its own. So two never run at once, whether a request is seen late, twice or never. It names one
// value, which no other lock has: what somebody left in the line who has died since ends nobody
// else.

const (
	// heedAtMost is how often a run looks at least, and lookAgain how often one that waits looks
	// who has the lock now. Each look is one script at every master, and a job that is over before
	// the first one costs nothing.
	heedAtMost = 5 * time.Second
	heedShare  = 3 // of the TTL: as often as it renews
	lookAgain  = time.Second
)

// replacing is the end of the owner of a run that asks the holder of this value to end.
func replacing(value string) string { return owner.Request + digest(value) }

// heed ends the command, until ctx ends, once somebody asks for that who waits for its lock. It
// returns who did; empty for nobody.
func (h *holder) heed(ctx context.Context, value string) (by string) {
	for clock.Sleep(ctx, h.clock, min(h.ttl/heedShare, heedAtMost)) {
		status, _ := admin.Of(h.locker).Inspect(ctx, h.name) //nolint:errcheck // one master that tells is enough
		by, asked := replacer(&status, value)
		if !asked {
			continue
		}
		h.messages.Warn("replaced", "this run of %q is to be replaced by %q: SIGTERM is passed on", h.name, by)
		select {
		case h.signals <- syscall.SIGTERM: // to the supervisor, which cannot tell it from another
		case <-ctx.Done():
		}
		return by
	}
	return ""
}

// replacer returns who waits for a lock and asks the holder of this value to end.
func replacer(status *admin.Status, value string) (who string, asked bool) {
	for _, n := range status.Nodes {
		for _, waiter := range n.Waiters {
			if who, asked = strings.CutSuffix(waiter, replacing(value)); asked {
				return who, true
			}
		}
	}
	return "", false
}

var errReplaced = errors.New("somebody else has the lock by now")

// replace waits for the lock, and asks each run to end that has it meanwhile.
func (h *holder) replace(ctx context.Context) (*redlock.Lock, error) {
	for {
		value, err := h.replaceable(ctx)
		if err != nil {
			return nil, err
		}
		lock, err := h.askToEnd(ctx, value)
		if !errors.Is(err, errReplaced) {
			return lock, err
		}
	}
}

// askToEnd waits for the lock, and asks the run with this value to end; none if it is empty. It
// returns errReplaced once the lock is somebody else's.
func (h *holder) askToEnd(ctx context.Context, value string) (*redlock.Lock, error) {
	me := h.flags.owner
	if value != "" {
		me += replacing(value)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() {
		for last := ""; clock.Sleep(ctx, h.clock, lookAgain); {
			status, _ := admin.Of(h.locker).Inspect(ctx, h.name) //nolint:errcheck // what is unknown has not changed
			now := status.Value
			if now != "" && now != value && now == last {
				cancel(errReplaced) // were it ours, the call would have returned since the last look
			}
			last = now
		}
	})
	defer watcher.Wait()
	defer cancel(nil)
	lock, err := h.locker.Lock(ctx, h.name, redlock.WithOwner(me))
	if err != nil && errors.Is(context.Cause(ctx), errReplaced) {
		return nil, errReplaced
	}
	return lock, err
}

// replaceable returns the value of the run that is to be asked, empty if nobody is known to have
// the lock, or an error if whoever has it cannot be asked.
func (h *holder) replaceable(ctx context.Context) (value string, err error) {
	ctx, cancel := context.WithTimeout(ctx, holderBound)
	defer cancel()
	told, _ := admin.Of(h.locker).Ask(ctx, h.name) //nolint:errcheck // what is unknown is nobody's
	about := tenantOf(told.Status).holder(h.clock.Wall())
	value = told.Status.Value
	why := deaf(&told)
	switch {
	case value == "":
		return "", nil
	case why != "":
		text := fmt.Sprintf("lock %q is held%s, %s: --replace can only ask a redlock run to end; end it where it runs, "+
			"and wait for the lock without --replace", h.name, by(" by ", about), why)
		return "", &deafError{errors.New(text)}
	}
	h.messages.About(about).Say("replacing", "lock %q is held%s: it is asked to end", h.name, by(" by ", about))
	return value, nil
}

// deafError means that whoever has the lock cannot be asked to end.
type deafError struct{ error }

// unlikeRun is what a program is called by default that locks by the library, or was called by a
// redlock that could not be asked.
var unlikeRun = regexp.MustCompile(`^\S+@\S+:\d+ \S+$`)

// deaf says why whoever has a lock cannot be asked; empty if that is not known.
func deaf(told *admin.Answers) string {
	status := &told.Status
	text, _, _ := owner.Of(status.Value)
	_, isLease := owner.ParseLease(text)
	switch {
	case isShared(status):
		return "to read"
	case slices.ContainsFunc(told.Terms, func(t admin.Term) bool { return t.Value == status.Value }):
		return "as the leader of an election"
	case text == "":
		return "by a holder without an owner, or by a program of another library"
	case isLease:
		return "through redlock serve"
	case unlikeRun.MatchString(text):
		return "a program, or a redlock that is older"
	default:
		return ""
	}
}

// notReplaced reports whoever cannot be asked to end. That is no conflict, which may be a success:
// nobody would ever learn why the lock is never replaced.
func (h *holder) notReplaced(deaf *deafError) error {
	return h.messages.End("not-replaced", cli.StatusError{Status: cli.ExitTaken, Err: deaf})
}
