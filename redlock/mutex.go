package redlock

import (
	"context"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/redlock/internal/round"
	"github.com/redquorum/redquorum/redlock/internal/wait"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// mutex is the kind of a lock of one name, and what the other kinds have in common with it.
type mutex struct{}

func (mutex) fresh() kind                 { return mutex{} }
func (mutex) nameOf(lock *Lock) string    { return lock.key[0][len(lock.locker.config.keyPrefix):] }
func (mutex) namesOf(lock *Lock) []string { return []string{lock.Name()} }
func (mutex) keysOf(lock *Lock) []string  { return lock.key[:] }
func (mutex) queueOf(lock *Lock) []string { return lock.keys() }

// A writer that has met readers keeps new ones out if it is refused.
func (mutex) acquire(lock *Lock, _ int, _ bool) pipeline.Request {
	if lock.intent {
		return wire.Announce(lock.key[0], lock.value, lock.life(), wait.IntentLife, lock.fencing())
	}
	return wire.Acquire(&lock.claim, lock.key[:], lock.value, lock.life(), lock.fencing())
}

func (mutex) wanted(*wait.Wanted) {}

func (mutex) wait(lock *Lock, ask *wire.Wait, _ bool) pipeline.Request {
	if lock.intent {
		ask.Intent = wait.IntentLife
	}
	return ask.Request()
}

func (mutex) answer(reply any) wire.WaitReply              { return wire.ReadWait(reply) }
func (mutex) chooses() bool                                { return false }
func (mutex) take(*Lock, *round.Round)                     {}
func (mutex) untake(*Lock)                                 {}
func (mutex) refused(*Lock, *round.Round) error            { return nil }
func (mutex) strays(*Lock) (_ pipeline.Request, some bool) { return pipeline.Request{}, false }

func (mutex) settle(ctx context.Context, lock *Lock, r *round.Round) (told *round.Round, reason, ended error) {
	return lock.settleFence(ctx, r)
}

func (mutex) raise(lock *Lock, token int64) pipeline.Request {
	return wire.Raise(lock.keys(), lock.value, token, lock.locker.config.fenceLife())
}

func (mutex) extend(lock *Lock, x *wire.Extension, b *round.Batch, now clock.Instant) {
	x.Add(lock.keys(), lock.value, lock.lifeAt(now))
	b.Add(len(lock.keys()), lock.lacks)
}

func (mutex) prefer(_ *Lock, p *wire.Prefer) pipeline.Request { return p.Request() }

func (mutex) verify(lock *Lock) pipeline.Request { return wire.Verify(lock.keys(), lock.value) }

func (mutex) release(lock *Lock) pipeline.Request {
	if lock.intent {
		return wire.ReleaseAnnounced(lock.keys(), lock.value, lock.grace(), lock.process())
	}
	return wire.Release(&lock.claim, lock.keys(), lock.value, lock.grace(), lock.process())
}
