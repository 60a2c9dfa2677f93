package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/internal/look"
	"github.com/redquorum/redquorum/internal/owner"
	"github.com/redquorum/redquorum/redlock"
)

// Ref is a lease as it was seen: its exact value. What is done by it never meets another lease,
// also not of the same token. The zero Ref is none.
type Ref struct {
	value string
	at    []int  // the masters that had it
	grant *Grant // if this process granted it
	alien bool   // it is no lease, and nothing is done to it
}

// Ref returns the lease that was granted.
func (g Grant) Ref() Ref { return Ref{value: g.lock.Value(), grant: &g} }

// Ref returns what was seen to hold the name. The lock of another program only compares.
func (h Holder) Ref() Ref { return Ref{value: h.value, at: h.at, alien: !h.Lease} }

// Same reports whether two are of one grant.
func (r Ref) Same(as Ref) bool { return r.value == as.value }

// Extend lets the holder of a lease count a TTL from now on, and returns that. A lease that is
// longer already stays as long at the masters, and is to be released at its end.
//
// Errors: [redlock.ErrLost] if a quorum of masters does not have it, which is final,
// [redlock.ErrNoQuorum] if too few masters answered to know, [redlock.ErrNoValidity] if they took
// so long that less than the TTL is left, [redlock.ErrInvalid], [redlock.ErrClosed], and that of
// ctx. After those but ErrLost, the lease is valid for as long as it was.
func (l *Leases) Extend(ctx context.Context, name, token string, ttl time.Duration) (valid time.Duration, err error) {
	err = l.each(ctx, name, token, func(ref Ref) error { return l.ExtendSeen(ctx, name, ref, ttl) })
	if err != nil {
		return 0, err
	}
	return ttl, nil
}

// ExtendSeen is [Leases.Extend] for a lease that was seen.
func (l *Leases) ExtendSeen(ctx context.Context, name string, ref Ref, ttl time.Duration) error {
	if err := checkTTL(ttl); err != nil {
		return err
	}
	if ref.value == "" || ref.alien {
		return fmt.Errorf("%w: %q has no lease", redlock.ErrLost, name)
	}
	left, err := l.door.Leases.Extend(ctx, name, ref.value, l.door.Leases.Life(ttl))
	if err == nil && left < ttl {
		return fmt.Errorf("extend %q: %w", name, redlock.ErrNoValidity)
	}
	return l.explain(err, ttl)
}

// Release releases a lease. Once it has begun, it outlives ctx.
//
// Errors: [redlock.ErrLost] if a quorum of masters does not have it, also because it was released
// before, [redlock.ErrNoQuorum] if too few answered to know: it is free at its end at the latest.
func (l *Leases) Release(ctx context.Context, name, token string) error {
	return l.each(ctx, name, token, func(ref Ref) error { return l.ReleaseSeen(ctx, name, ref) })
}

// ReleaseSeen is [Leases.Release] for a lease that was seen.
func (l *Leases) ReleaseSeen(ctx context.Context, name string, ref Ref) error {
	switch {
	case ref.value == "" || ref.alien:
		return fmt.Errorf("%w: %q has no lease", redlock.ErrLost, name)
	case ref.grant == nil || len(ref.grant.lock.Names()) > 1:
		return l.door.Leases.Release(ctx, name, ref.value, ref.at)
	}
	err := ref.grant.lock.Unlock(ctx) // it knows which masters may yet grant it
	if err == nil || errors.Is(err, redlock.ErrLost) {
		l.forget(name, ref.grant.lock)
	}
	if err == nil && ref.grant.released.Swap(true) { // Unlock tells the same again
		return fmt.Errorf("%w: %q was released before", redlock.ErrLost, name)
	}
	return err
}

// mostLooks bounds how often the holder is looked for. What changes each time is another lease of
// the same token, and those who share one take their chances.
const mostLooks = 3

// each asks for the value under which a name has the token: first for what this process granted,
// then for what the masters have.
//
// Between the look and the question, the lease may end and another one with the same token begin:
// that one has another value, so it is not meant by the question, and the look after the denial
// finds it.
func (l *Leases) each(ctx context.Context, name, token string, ask func(Ref) error) error {
	if g, ok := l.Remembered(name); ok && g.Token == token {
		if err := ask(g.Ref()); !errors.Is(err, redlock.ErrLost) {
			return err
		}
		l.forget(name, g.lock)
	}
	var lost error
	for range mostLooks {
		holder, known, err := l.Look(ctx, name)
		switch {
		case err != nil:
			return err
		case !known || !holder.Lease || holder.Token != token:
			return errors.Join(fmt.Errorf("%w: %q has no lease with that token", redlock.ErrLost, name), lost)
		}
		if lost = ask(holder.Ref()); !errors.Is(lost, redlock.ErrLost) {
			return lost
		}
	}
	return lost
}

// slower is how long a look waits for masters that are slower than a quorum, unless the quorum
// does not agree.
const slower = 5 * time.Millisecond

// Look tells who holds a name, if a quorum of masters has the same holder. Without one it returns
// false: the name is free, or on its way from one holder to another. If too few masters answered to
// know, the error is [redlock.ErrNoQuorum].
func (l *Leases) Look(ctx context.Context, name string) (Holder, bool, error) {
	status, err := l.operator.Inspect(look.Within(ctx, slower), name)
	if err == nil && status.Value == "" && !status.Free { // what the others have decides
		status, err = l.operator.Inspect(ctx, name)
	}
	switch {
	case err != nil:
		return Holder{}, false, err
	case status.Value != "":
		return l.holderOf(&status), true, nil
	case status.Free || maxHeld(&status, l.locker.Stats().Members) < status.Quorum:
		return Holder{}, false, nil
	default:
		return Holder{}, false, fmt.Errorf("look at %q: %w: the masters that answered have no common holder", name, redlock.ErrNoQuorum)
	}
}

// maxHeld returns how many members may have the same value: those which do, and those which did not
// answer, or that this client does not know.
func maxHeld(status *admin.Status, members int) int {
	held, most, answered := map[string]int{}, 0, 0
	for _, n := range status.Nodes {
		if n.Err != nil {
			continue
		}
		answered++
		if n.Value != "" {
			held[n.Value]++
			most = max(most, held[n.Value])
		}
	}
	return most + max(members-answered, 0)
}

// holderOf returns the holder of the value that a quorum has.
func (l *Leases) holderOf(status *admin.Status) Holder {
	h := Holder{Token: status.Value, Owner: status.Owner, Since: status.Since.Time, value: status.Value}
	text, _, _ := owner.Of(status.Value)
	if told, ok := owner.ParseLease(text); ok {
		h.Lease, h.Token, h.Owner, h.Door, h.From = true, told.Token, told.Owner, told.Door, told.From
	}
	var ttls []time.Duration
	for i, n := range status.Nodes {
		if n.Value != status.Value {
			continue
		}
		h.at = append(h.at, i)
		if n.Err == nil {
			ttls = append(ttls, n.TTL)
		}
	}
	// A quorum has it for as long as the last but few of these. What the holder does not count on
	// is left out, so it is not told more than it was granted.
	slices.SortFunc(ttls, func(a, b time.Duration) int { return int(b - a) })
	left := ttls[status.Quorum-1]
	h.Remaining = max(left-(l.door.Leases.Life(left)-left), 0)
	if !h.Since.IsZero() {
		h.Held = max(l.door.Clock.Wall().Sub(h.Since), 0)
	}
	return h
}
