// Package lease has the locks of programs that do not speak to masters themselves: they come to a
// server by a door (HTTP, RESP), and know a lock by its name and a token.
//
// A server keeps nothing of a lease that anybody needs. Any server of a fleet extends and releases
// what another one granted, and one that restarts takes no lease with it.
//
//   - Each grant has a fresh random value at the masters, with the token behind it ([label]). So
//     tokens may recur: threads may share one, and a program that was restored has it again.
//   - Extend and Release look who holds the name. If it is a lease with the token, they ask for its
//     exact value, and the masters compare. What has another holder by then is left alone.
//   - An extension only lengthens, and a release only deletes that value. So both may come twice,
//     late, in any order, and by two servers at once.
//   - A holder counts its TTL from the reply. The masters get more: the drift and a node timeout.
//     A grant or an extension counts only if the whole TTL is left when the reply is written.
package lease

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/internal/door"
	"github.com/redquorum/redquorum/redlock"
)

// Request asks for a lease.
type Request struct {
	Name  string
	Names []string // more than one name, all or none of them; then Name is not used
	Token string   // by which it is known; any bytes, at most [MaxToken]; empty for a random one

	TTL   time.Duration // that the holder counts from the reply
	Wait  time.Duration // how long to wait for it; 0 for one attempt
	Fence bool          // with a fencing token

	Owner, Door, From string // for people: who it is, and by which door and from where it came

	// Silent leaves out who holds the lease instead, which takes another question to the masters.
	Silent bool
}

// Grant is a lease that was granted.
type Grant struct {
	Name  string
	Token string
	Fence int64         // 0 without Fence
	Valid time.Duration // from the moment that Acquire returned

	lock     *redlock.Lock
	released *atomic.Bool // a release was confirmed, which is told once
}

// Holder is who holds a name.
type Holder struct {
	Token string // of a lease; of a lock of another program, the whole value
	Lease bool   // it is a lease, and not the lock of another program

	Owner, Door, From string

	Since     time.Time     // zero if the value does not tell
	Held      time.Duration // since then
	Remaining time.Duration // how long it is still held if nobody extends it

	value string
	at    []int // the masters that have the value
}

// TakenError says who has a lease that was asked for. It wraps the error of the Locker, which
// matches [redlock.ErrTaken].
type TakenError struct {
	Holder Holder // zero if the masters did not tell
	Err    error
}

func (e *TakenError) Error() string { return e.Err.Error() }
func (e *TakenError) Unwrap() error { return e.Err }

// Leases are the leases at the masters of a Locker. Its methods may be called from any goroutine.
type Leases struct {
	locker   *redlock.Locker
	operator *admin.Operator
	door     door.Door
	counts   counts

	mu      sync.Mutex       // guards granted; never held over a call to a master
	granted map[string]Grant // by name: see Remembered
}

// mostGranted bounds the grants that are remembered. More than that are rarely held at once, and
// what is forgotten costs a question to the masters.
const mostGranted = 16_384

// New returns the leases at the masters of a Locker, which the caller closes.
func New(locker *redlock.Locker) *Leases {
	return &Leases{locker: locker, operator: admin.Of(locker), door: door.Of(locker), granted: map[string]Grant{}}
}

// Acquire grants a lease, with the whole TTL left. If ctx has ended by then, so that nobody takes
// the grant, it is given back.
//
// Errors: [redlock.ErrTaken] in a [*TakenError], [redlock.ErrNoQuorum], [redlock.ErrNoValidity],
// [redlock.ErrInvalid], [redlock.ErrClosed], and that of ctx.
func (l *Leases) Acquire(ctx context.Context, r Request) (g Grant, err error) {
	counted := l.counts.begin(&r)
	defer func() { counted(err) }()
	if len(r.Names) == 0 {
		r.Names = []string{r.Name}
	}
	if r.Token == "" {
		r.Token = rand.Text()
	}
	options, err := l.options(&r)
	if err != nil {
		return Grant{}, err
	}
	lock, err := l.lock(ctx, &r, options)
	switch {
	case errors.Is(err, redlock.ErrTaken) && !r.Silent && ctx.Err() == nil:
		holder, _, _ := l.Look(ctx, r.Names[0]) //nolint:errcheck // then it is not told
		return Grant{}, &TakenError{holder, err}
	case err != nil:
		return Grant{}, l.explain(err, r.TTL)
	}
	// Here the lock has an owner that renews nothing and never forgets to release. From the next
	// line on, only the client knows that it holds it. Between the two, nothing may fail.
	enough := lock.Remaining() >= r.TTL
	if !l.door.Leases.Detach(lock) {
		return Grant{}, fmt.Errorf("acquire %q: %w", r.Names[0], redlock.ErrNoValidity) // it undoes itself
	}
	g = Grant{Name: r.Names[0], Token: r.Token, Fence: lock.Fence(), Valid: r.TTL, lock: lock, released: new(atomic.Bool)}
	if ctx.Err() != nil || !enough {
		l.GiveBack(g)
		if ctx.Err() != nil {
			return Grant{}, fmt.Errorf("acquire %q: %w", g.Name, context.Cause(ctx))
		}
		return Grant{}, fmt.Errorf("acquire %q: %w", g.Name, redlock.ErrNoValidity)
	}
	l.remember(r.Names, g)
	return g, nil
}

// options returns those of the Locker's call.
func (l *Leases) options(r *Request) ([]redlock.LockOption, error) {
	if err := checkTTL(r.TTL); err != nil {
		return nil, err
	}
	text, err := label{r.Door, r.From, r.Owner, r.Token}.text()
	if err != nil {
		return nil, err
	}
	options := []redlock.LockOption{
		redlock.WithTTL(l.door.Leases.Life(r.TTL)), redlock.WithMinValidity(r.TTL), redlock.WithoutRenewal(), redlock.WithOwner(text),
	}
	if r.Fence {
		options = append(options, redlock.WithFencing())
	}
	return options, nil
}

// lock acquires what was asked for, within the time that the client waits.
func (l *Leases) lock(ctx context.Context, r *Request, options []redlock.LockOption) (*redlock.Lock, error) {
	if r.Wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.Wait)
		defer cancel()
	}
	one := len(r.Names) == 1
	switch {
	case r.Wait > 0 && one:
		return l.locker.Lock(ctx, r.Names[0], options...)
	case r.Wait > 0:
		return l.locker.LockAll(ctx, r.Names, options...)
	case one:
		return l.locker.TryLock(ctx, r.Names[0], options...)
	default:
		return l.locker.TryLockAll(ctx, r.Names, options...)
	}
}

// GiveBack releases a grant that its client did not get. It takes a node timeout at most.
func (l *Leases) GiveBack(g Grant) {
	l.forget(g.Name, g.lock)
	_ = g.lock.Unlock(context.Background()) //nolint:errcheck // nobody is left to tell; it ends with its TTL
}

// MaxTTL bounds a TTL before anything is computed from it. The cluster's MaxTTL is below it.
const MaxTTL = 24 * time.Hour

func checkTTL(ttl time.Duration) error {
	if ttl < time.Millisecond || ttl > MaxTTL {
		return fmt.Errorf("%w: a TTL of %v is not between 1ms and %v", redlock.ErrInvalid, ttl, MaxTTL)
	}
	return nil
}

// explain adds the way out to the error of a TTL that the cluster does not permit.
func (l *Leases) explain(err error, ttl time.Duration) error {
	if !errors.Is(err, redlock.ErrInvalid) || !strings.Contains(err.Error(), ": TTL ") {
		return err
	}
	return fmt.Errorf("%w; a lease of %v is kept for %v by the masters: `redlock members max-ttl` and `redlock serve --max-ttl` allow more",
		err, ttl, l.door.Leases.Life(ttl))
}

// Remembered returns what this process granted last under a name. It saves the question who holds
// the name, and decides nothing: it is a value that may be at the masters, which compare it. What
// they deny is looked for anew.
func (l *Leases) Remembered(name string) (Grant, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g, ok := l.granted[name]
	return g, ok
}

func (l *Leases) remember(names []string, g Grant) {
	if len(names) > 1 {
		return // each of them is released on its own
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for name := range l.granted { // any other
		if len(l.granted) < mostGranted {
			break
		}
		delete(l.granted, name)
	}
	l.granted[g.Name] = g
}

func (l *Leases) forget(name string, lock *redlock.Lock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.granted[name].lock == lock {
		delete(l.granted, name)
	}
}
