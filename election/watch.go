package election

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/ledger"
	"github.com/redquorum/redquorum/redlock"
)

// watchEvery is how often Watch asks the masters.
const watchEvery = time.Second

// Watch tells who leads: first who does now (the zero Leader if nobody does), then every change,
// until ctx ends or the Locker is closed. It asks the masters once a second, and at once when this
// Election begins or ends a term. While the caller uses a Leader, it does not ask.
//
// It tells every term that is led after the first Leader, in order, even those that began and ended
// between two of its questions: their Leaders have no Until. A term that was recorded, but whose
// leader died just before it led, may be told too. The zero Leader is told only if nobody leads
// when Watch asks, so not between two terms that follow each other.
//
// Terms may be missing if more than 256 began between two questions, or if masters lost their keys
// before Watch asked. While too few masters answer, or too few have the newest term because some
// were away, it tells nothing; the leader writes its term again every 5 s.
func (e *Election) Watch(ctx context.Context) iter.Seq[Leader] {
	return func(yield func(Leader) bool) {
		if ctx == nil {
			return
		}
		w := watcher{}
		for ctx.Err() == nil {
			changed := e.changes() // of what happens from here on
			most := ledger.Kept
			if !w.began {
				most = newestTerms
			}
			page, err := e.door.ReadTerms(ctx, e.name, w.since(), most)
			if errors.Is(err, redlock.ErrClosed) {
				return
			}
			if err == nil {
				for _, leader := range w.news(page) {
					if !yield(leader) {
						return
					}
				}
			}
			e.awaitNext(ctx, changed)
		}
	}
}

// awaitNext waits until it is time to ask again.
func (e *Election) awaitNext(ctx context.Context, changed <-chan struct{}) {
	over, timer := clock.After(e.door.Clock, watchEvery)
	defer timer.Stop()
	select {
	case <-over:
	case <-changed:
	case <-ctx.Done():
	}
}

// watcher is what one Watch has told.
type watcher struct {
	began bool
	told  int64 // the largest term
	now   int64 // the term of the last Leader; 0 for nobody
}

// since returns the term above which the masters are asked. The last one is asked for again, so
// that its holder is known.
func (w *watcher) since() int64 { return max(w.told-1, 0) }

// news returns what is new, and notes it.
//
// It tells terms up to the largest that a quorum of masters has on record, and no further. So none
// is left out (S31, docs/safety.md): an earlier term that was led was recorded by a quorum before
// that largest one was elected. One node is in both quorums. It recorded the earlier term first, so
// its answer has both.
func (w *watcher) news(page ledger.Page) (news []Leader) {
	leader, known := leaderOf(page)
	settled := settledIn(page)
	if !w.began {
		if !known || leader.Term > settled {
			return nil
		}
		w.began, w.told, w.now = true, leader.Term, leader.Term
		if leader.Term == 0 {
			w.told = settled // all of them are over, or about to be told as the leader
		}
		return []Leader{leader}
	}
	for _, entry := range entriesOf(page) {
		switch {
		case entry.Term <= w.told || entry.Term > settled:
		case entry.Term == leader.Term:
			news = append(news, leader)
		default:
			news = append(news, told(entry, 0))
		}
	}
	if len(news) > 0 {
		w.told = news[len(news)-1].Term
		w.now = w.told
		return news // if the last one does not lead any more, the next look tells
	}
	// The answers may be of different moments. So that nobody leads, or that a leader is back (its
	// keys were deleted, and the renewal restored them), is told only if no term began meanwhile.
	if known && leader.Term != w.now && (leader.Term == 0 || leader.Term == w.told) {
		w.now = leader.Term
		news = append(news, leader)
	}
	return news
}
