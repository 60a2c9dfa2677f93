package redlock

import (
	"context"
	"math/bits"
	"slices"
	"strings"
)

// A SET with NX refuses a key of the wrong type in the same words as a key that is held. The release that follows every attempt
// that failed tells the two apart: it fails with WRONGTYPE. So before a lock is called taken, the nodes that refused it are
// heard a second time, with a release that is on its way to them anyway.

// taken reports whether a quorum answered the attempt r and went by the answers to the release u still counts as having
// answered. Nodes whose key is no lock count as failed from then on.
func (l *Locker) taken(ctx context.Context, r, u *round) bool {
	select { // by the node timeout, at which every vote is in
	case <-u.decided:
	case <-ctx.Done():
	}
	u.mu.Lock()
	v, errs := u.verdict, []error(nil)
	if u.rare != nil {
		errs = slices.Clone(u.rare.errs) // later votes add to them
	}
	u.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range errs {
		if bit := uint64(1) << i; r.refused&bit != 0 && isWrongType(errs[i]) {
			r.refused, r.failed = r.refused&^bit, r.failed|bit
			r.failLocked(i, errs[i])
		}
	}
	return v != noQuorum
}

// hearAgain makes the release u the second hearing of the nodes that refused r.
func (r *round) hearAgain(u *round) {
	r.mu.Lock()
	votes, refusals := r.tallyLocked(), r.voters.counted(r.refused)
	r.mu.Unlock()
	u.decided = make(chan struct{})
	u.rule = func(tally) verdict { // called with u.mu held
		var wrong, out uint64
		for i := range u.calls {
			switch bit := uint64(1) << i; {
			case refusals&bit == 0:
			case (u.granted|u.refused|u.failed)&bit == 0:
				out |= bit
			case isWrongType(u.errLocked(i)):
				wrong |= bit
			}
		}
		answered := votes.granted + votes.refused - bits.OnesCount64(wrong)
		switch {
		case answered-bits.OnesCount64(out) >= quorum(votes.nodes):
			return denied
		case out != 0: // also when it is lost already: the error is to name every such node
			return pending
		default:
			return noQuorum
		}
	}
}

func isWrongType(err error) bool { return err != nil && strings.HasPrefix(err.Error(), "WRONGTYPE") }
