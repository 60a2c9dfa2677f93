package round

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/redlock/internal/members"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
)

// The verdict comes while a wait is cut short: the channel goes back without its signal, which
// would end the wait for another round.
func TestNoSignalOfARoundReachesAnother(t *testing.T) {
	for range 200 {
		rounds := &Rounds{}
		r, over := &Round{rounds: rounds}, make(chan struct{})
		ctx, end := context.WithCancel(t.Context())
		go func() {
			defer close(over)
			r.await(ctx)
		}()
		waits := func() bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.wake != nil
		}
		for !waits() {
			runtime.Gosched()
		}
		r.mu.Lock()
		wake := r.wake
		end()
		r.verdict, r.wake = quorum.Won, nil // as decideLocked does
		wake <- struct{}{}
		r.mu.Unlock()
		<-over
		assert.Empty(t, wake)
	}
}

// A caller that unlocks and locks again would overtake a waiter if it could see that the
// coordinator has answered, and not what the answer said.
func TestWhoSeesAVoteSeesWhatWasMadeOfIt(t *testing.T) {
	for range 1000 {
		var counting atomic.Int32
		rounds := &Rounds{
			Members: members.New(members.Config{Mode: members.Off}, make([]*pipeline.Node, 1), nil),
			Counting: func(*Round, int, quorum.Vote) {
				runtime.Gosched() // time for a waiter that was woken too early
				counting.Add(1)
			},
			Voted: func(*Round, Vote) {},
		}
		r := rounds.New(&Spec{Rule: func(quorum.Tally) quorum.Verdict { return quorum.Won }, Background: true})
		go r.Complete(0, nil, errDuplicate)
		for !r.HasVoted(0) {
			runtime.Gosched()
		}
		assert.EqualValues(t, 1, counting.Load())
	}
}
