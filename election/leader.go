package election

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/redquorum/redquorum/internal/ledger"
	"github.com/redquorum/redquorum/internal/owner"
	"github.com/redquorum/redquorum/redlock"
)

// Leader is who leads. The zero Leader means that nobody does.
type Leader struct {
	ID   string // see [WithID]
	Term int64  // larger than that of every earlier leader

	// Until is how long the leadership lasts if it is not renewed: for the leader itself its
	// validity, for others what the masters say. Zero for a leader that Watch learned of later.
	Until time.Duration
}

// newestTerms is how many terms Leader asks for. The holder's is among the newest.
const newestTerms = 8

// Leader returns who leads. The leader itself knows without asking. Otherwise it asks all masters,
// and waits for the slowest, at most for the node timeout. The answer may be out of date when it
// arrives.
//
// It returns the zero Leader if nobody leads: the lock is free, or its holder is not elected yet,
// or is not a candidate. Errors: [redlock.ErrNoQuorum] if too few masters answer to tell,
// [redlock.ErrClosed], [ErrInvalid], and the error of a ctx that ended.
func (e *Election) Leader(ctx context.Context) (Leader, error) {
	if ctx == nil {
		return Leader{}, invalid("ctx is nil")
	}
	if t := e.current(); t != nil && t.leads() {
		if left := t.lock.Remaining(); left > 0 {
			return Leader{ID: e.id, Term: t.lock.Fence(), Until: left}, nil
		}
	}
	page, err := e.door.ReadTerms(ctx, e.name, 0, newestTerms)
	if err != nil {
		return Leader{}, fmt.Errorf("election: %w", err)
	}
	leader, known := leaderOf(page)
	if !known {
		return Leader{}, fmt.Errorf("election: leader of %q: %w: masters that are away may decide", e.name, redlock.ErrNoQuorum)
	}
	return leader, nil
}

// leaderOf returns the leader, as of the answers. It reports false if the members that did not
// answer, or that this client does not know, might change that.
//
// The leader is the holder of a quorum, if its term is on record. One record is enough: only the
// holder itself writes it, with the term that a quorum gave it. A holder without a record does not
// lead yet, because it leads after a quorum has recorded it.
func leaderOf(page ledger.Page) (leader Leader, known bool) {
	held, unsure := map[string][]time.Duration{}, page.Members
	for _, answer := range page.Answers {
		switch {
		case !answer.Counts:
			continue
		case answer.TTL < 0:
			held[answer.Value] = append(held[answer.Value], math.MaxInt64)
		default:
			held[answer.Value] = append(held[answer.Value], answer.TTL)
		}
		unsure--
	}
	known = true
	for value, left := range held {
		switch {
		case len(left) >= page.Quorum:
			// It is the holder until the last of these is gone without which it has no quorum.
			slices.SortFunc(left, func(a, b time.Duration) int { return cmp.Compare(b, a) })
			return leaderWith(value, entriesOf(page), left[page.Quorum-1]), true
		case value != "" && len(left)+unsure >= page.Quorum:
			known = false
		}
	}
	return Leader{}, known
}

// holderOf returns the value that a quorum of masters holds, or "".
func holderOf(page ledger.Page) string {
	held := map[string]int{}
	for _, answer := range page.Answers {
		if held[answer.Value]++; answer.Counts && held[answer.Value] >= page.Quorum {
			return answer.Value
		}
	}
	return ""
}

func leaderWith(value string, entries []ledger.Entry, until time.Duration) Leader {
	for _, entry := range entries {
		if entry.Value == value {
			return told(entry, until)
		}
	}
	return Leader{}
}

func told(entry ledger.Entry, until time.Duration) Leader {
	id, _, _ := owner.Of(entry.Value)
	return Leader{ID: id, Term: entry.Term, Until: until}
}

// entriesOf returns what any master has on record, in the order of the terms.
func entriesOf(page ledger.Page) (all []ledger.Entry) {
	for _, answer := range page.Answers {
		all = append(all, answer.Entries...)
	}
	slices.SortFunc(all, func(a, b ledger.Entry) int { return cmp.Compare(a.Term, b.Term) })
	return slices.Compact(all)
}

// settledIn returns the largest term that a quorum of masters has on record, or 0.
func settledIn(page ledger.Page) (settled int64) {
	counts := map[int64]int{}
	for _, answer := range page.Answers {
		for _, entry := range answer.Entries {
			if counts[entry.Term]++; counts[entry.Term] >= page.Quorum {
				settled = max(settled, entry.Term)
			}
		}
	}
	return settled
}
