package driver_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// act is something that an actor may do.
type act struct {
	name   string
	weight int
	do     func(a *actor)
}

// actor is a goroutine that acts.
type actor struct {
	*run
	who string
	rng *rand.Rand
}

// storm does one act after the other until the storm ends.
func (a *actor) storm() {
	for a.goesOn() {
		one := a.plan.acts[a.rng.IntN(len(a.plan.acts))]
		one.do(a)
		if a.rng.IntN(3) == 0 {
			a.pause(upTo(a.rng, 30*time.Millisecond))
		}
	}
}

// life returns the Locker of some client.
func (a *actor) life() *life { return a.clients[a.rng.IntN(len(a.clients))].current() }

// Names: one is hot, some are warm, many are cold, and some are used once. Others are of calls
// that take locks from their holders, or of locks with a minimum hold, or of semaphores.
func (a *actor) name() string {
	switch luck := a.rng.IntN(20); {
	case luck < 11:
		return "hot"
	case luck < 16:
		return fmt.Sprint("warm", a.rng.IntN(3))
	case luck < 18:
		return fmt.Sprint("cold", a.rng.IntN(10))
	default:
		return a.fresh()
	}
}

// fresh returns a name that nobody has used.
func (r *run) fresh() string { return fmt.Sprint("once", r.once.Add(1)) }

// some returns several names.
func (a *actor) some() (names []string) {
	used := make(map[string]bool)
	for range 1 + a.rng.IntN(4) {
		if name := a.name(); !used[name] {
			used[name] = true
			names = append(names, name)
		}
	}
	return names
}

func (a *actor) wild() string { return fmt.Sprint("wild", a.rng.IntN(2)) }

// limited is a context, and when it ends.
type limited struct {
	context.Context //nolint:containedctx // it is the context of one call
	cancel          context.CancelFunc
	ends            clock.Instant // 0: not before the history hangs
}

// patience returns a context that has ended, ends soon, or (unless the call waits) never.
func (a *actor) patience(waits bool) *limited {
	ctx, cancel := context.WithCancel(a.base)
	l := &limited{Context: ctx, cancel: cancel}
	var after time.Duration
	switch luck := a.rng.IntN(12); {
	case luck == 0:
		cancel()
		l.ends = a.clock.Now()
		return l
	case luck <= 2:
		after = upTo(a.rng, 10*time.Millisecond)
	case luck <= 5 || waits:
		after = upTo(a.rng, 2*time.Second)
	default:
		return l
	}
	l.ends = a.clock.Now().Add(after)
	if a.rng.IntN(2) == 0 {
		l.Context, l.cancel = context.WithTimeout(ctx, after)
	} else {
		timer := time.AfterFunc(after, cancel)
		l.cancel = func() { timer.Stop(); cancel() }
	}
	return l
}

// over reports whether it has ended.
func (l *limited) over(now clock.Instant) bool { return l.ends != 0 && now >= l.ends || l.Err() != nil }

// inTime judges how long a call took: at most the limit, 0 for none, and not beyond its context.
// What a tracer takes comes on top, and what timers may be late on a machine that sleeps meanwhile.
func (a *actor) inTime(promise, call string, began clock.Instant, limit time.Duration, ctx *limited) {
	took := a.since(began)
	if ctx != nil && ctx.ends != 0 {
		if left := max(ctx.ends.Sub(began), 0); limit == 0 || left < limit {
			limit = left
		}
	}
	if limit == 0 && (ctx == nil || ctx.ends == 0) {
		return
	}
	late := a.slack + a.plan.lingers
	if a.plan.sleeps {
		late += clock.MaxNap
	}
	a.promise(promise, took <= limit+late, "%s: %s took %v, at most %v are promised", a.who, call, took, limit)
}

// is reports whether an error matches any of some.
func is(err error, any ...error) bool {
	for _, one := range any {
		if errors.Is(err, one) {
			return true
		}
	}
	return false
}

// troubles is the page that has all that can be wrong with a node.
var troubles = sync.OnceValue(func() string {
	text, _ := os.ReadFile(filepath.Join("..", "..", "..", "docs", "troubles.md")) //nolint:errcheck // TestPromises reads it, too
	return string(text)
})

// explained are errors of locks that a quorum granted.
var explained = regexp.MustCompile("a release handed it to a waiter|another wait of the same call was faster|no quorum is near one fencing token")

// sound judges what an error may say, whatever returned it: that a context has ended, or the Locker
// was closed, only if that is so.
func (a *actor) sound(call string, err error, ctx *limited, life *life) {
	for _, ended := range []error{context.Canceled, context.DeadlineExceeded} {
		a.promise("errors of contexts", !errors.Is(err, ended) || ctx.over(a.clock.Now()), "%s: %s: %v, and its context goes on", a.who, call, err)
	}
	a.promise("ErrClosed", !errors.Is(err, redlock.ErrClosed) || life.closed.Load(), "%s: %s: %v, and nobody closed it", a.who, call, err)
	var refused *redlock.QuorumError
	if !errors.As(err, &refused) {
		return
	}
	asked := make(map[string]bool) // a master added again while its connection ends is there twice
	for _, n := range refused.Nodes {
		asked[n.Endpoint] = true
		word, _ := pool.Trouble(n.Err)
		a.promise("what is wrong with a node has a row", word == "" || strings.Contains(troubles(), "\n| `"+word+"` |"), "%s: %v is %q", n.Endpoint, n.Err, word)
	}
	votes := refused.Granted + refused.Refused
	masters, _ := a.plan.size()
	a.promise("votes of a QuorumError", refused.Need > 0 && votes <= masters && len(asked) <= masters,
		"%s: %s: %v", a.who, call, err)
	if explained.MatchString(err.Error()) {
		return // a quorum granted, and the text says why that is not enough
	}
	if is(err, redlock.ErrTaken) {
		alone := slices.Contains([]string{"Lock", "LockAll", "LockAny", "RLock", "Acquire", "Do"}, call) && votes <= 1 // or 0, if that master has forgotten since
		a.promise("votes of ErrTaken", refused.Granted < refused.Need && (votes >= refused.Need || alone), "%s: %s: %v", a.who, call, err)
	} else if is(err, redlock.ErrNoQuorum) {
		a.promise("votes of ErrNoQuorum", refused.Granted < refused.Need || a.plan.spoiled(), "%s: %s: %v", a.who, call, err)
	}
}
