package round

import (
	"context"
	"errors"
	"fmt"

	"github.com/redquorum/redquorum/redlock/internal/quorum"
)

// Verdict returns the verdict, or Pending.
func (r *Round) Verdict() quorum.Verdict {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.verdict
}

// Decided reports whether there is a verdict.
func (r *Round) Decided() bool { return r.Verdict() != quorum.Pending }

// Await waits for the verdict. It comes at the deadline at the latest, when every vote is in.
func (r *Round) Await() { r.await(context.Background()) }

// Wait returns the verdict, or Pending and the error of ctx if ctx ends first. By then, another
// list of members may be in force than when the last vote came, so the votes are counted once more:
// nobody is told that a round was undecided together with votes that win it.
func (r *Round) Wait(ctx context.Context) (quorum.Verdict, error) {
	r.await(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if view := r.recountLocked(true); r.verdict == quorum.Pending {
		cut := &standing{r.votes, view}
		if r.rareLocked().cut = cut; r.rare.choice != nil {
			cut.votes = r.rare.choice.forChosen(cut.votes)
		}
		return quorum.Pending, EndOf(ctx)
	}
	if r.rare != nil {
		r.rare.cut = nil
	}
	return r.verdict, nil
}

// Recount counts the votes once more. Whoever learns that votes count in another way than before
// tells it to all rounds that nodes have not answered ([pipeline.Node.Unanswered]), so a call ends
// as soon as the votes that are in win it. A round that is on its way to a node meanwhile is not
// found there: Send looks for itself.
func (r *Round) Recount() {
	r.mu.Lock()
	r.recountLocked(true)
	r.tellMoreLocked()
	confirming := r.confirmingLocked()
	r.mu.Unlock()
	if confirming != nil {
		confirming.decide()
	}
}

// await returns when there is a verdict, or ctx ends. The first that waits gets a channel
// that is used again: whoever takes it away from the round under mu, the round with its signal or
// the waiter without, leaves it to the waiter alone. So no signal of one round reaches another.
func (r *Round) await(ctx context.Context) {
	if r.request.Collects {
		r.Nodes()[0].Collect(ctx, r)
	}
	ended := ctx.Done()
	r.mu.Lock()
	if r.verdict != quorum.Pending {
		r.mu.Unlock()
		return
	}
	if r.wake != nil {
		more := r.rareLocked()
		if more.also == nil {
			more.also = make(chan struct{})
		}
		also := more.also
		r.mu.Unlock()
		select {
		case <-also:
		case <-ended:
		}
		return
	}
	wake, _ := r.rounds.wakes.Get().(chan struct{})
	if wake == nil {
		wake = make(chan struct{}, 1)
	}
	r.wake = wake
	r.mu.Unlock()
	if ended == nil {
		<-wake // which costs less than a select
	} else {
		select {
		case <-wake:
		case <-ended:
			r.mu.Lock()
			if r.wake == nil {
				<-wake // it was signalled meanwhile
			}
			r.wake = nil
			r.mu.Unlock()
		}
	}
	r.rounds.wakes.Put(wake)
}

// EndOf returns the error of a context that ended, together with its cause if that is a different
// one.
func EndOf(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, ctx.Err()) {
		return fmt.Errorf("%w: %w", ctx.Err(), cause)
	}
	return ctx.Err()
}
