//go:build linux

package scenario_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redquorum/redquorum/clock"
)

// turn is a time during which a contender was sure of the lock: from the return of Lock until it
// called Unlock, was killed, or its validity ended.
type turn struct {
	who      int
	from, to clock.Instant
}

// notAtAll is the delay that a hand-over may have on a busy machine.
const notAtAll = 20 * time.Millisecond

// judgeContenders checks whether two contenders held the lock at once, and for how long nobody did
// although one waited.
func judgeContenders(t *testing.T, events []said) {
	t.Helper()
	slices.SortStableFunc(events, func(a, b said) int { return int(a.at - b.at) })
	turns := turnsOf(events)
	var last *turn
	for i := range turns {
		if now := &turns[i]; last != nil && now.from < last.to {
			t.Errorf("%d got it %v before %d's time was over", now.who, last.to.Sub(now.from), last.who)
		} else if last == nil || now.to > last.to {
			last = now
		}
	}
	// The key of a killed contender must expire, and up to two contenders may be handed the vote
	// before they are found to be dead or stopped. Then comes the next poll.
	bound := contenderTTL + 2*contenderGrace + contenderPoll + contenderTimeout + slack
	var gaps []time.Duration
	var harm, prompt int
	free := clock.Instant(0) // since when nobody holds it
	for i := 1; i < len(turns); i++ {
		free = max(free, turns[i-1].to)
		waited := waitedSince(events, turns[i].from)
		gap := turns[i].from.Sub(max(free, waited))
		if gap > bound {
			t.Errorf("nobody had it for %v, %v were allowed", gap, bound)
		}
		if harmed(events, turns[i-1].from, turns[i].from) {
			harm++
			if gap <= notAtAll {
				prompt++
			}
			gaps = append(gaps, gap)
		}
	}
	assert.Greater(t, len(turns), harm)
	assert.NotEmpty(t, gaps)
	slices.Sort(gaps)
	t.Logf("%d turns; %d of them followed on harm, %d of these not delayed at all; median delay %v, longest %v, %v allowed",
		len(turns), harm, prompt, gaps[len(gaps)/2], gaps[len(gaps)-1], bound)
}

// turnsOf returns who held the lock when, in the order of the acquisitions.
func turnsOf(events []said) (turns []turn) {
	open := make(map[int]int)
	for _, e := range events {
		i, has := open[e.who]
		switch {
		case e.word == "holds":
			open[e.who] = len(turns)
			turns = append(turns, turn{who: e.who, from: e.at, to: e.till})
		case has && (e.word == "releases" || e.word == "killed"):
			turns[i].to = min(turns[i].to, e.at)
			delete(open, e.who)
		}
	}
	return turns
}

// waitedSince returns since when, without a break, a contender has waited that was neither killed
// nor stopped meanwhile.
func waitedSince(events []said, at clock.Instant) clock.Instant {
	since := make(map[int]clock.Instant)
	for _, e := range events {
		if e.at > at {
			break
		}
		switch e.word {
		case "waits", "continued":
			since[e.who] = e.at
		case "gaveup", "killed", "stopped", "releases":
			delete(since, e.who)
		case "holds":
			if e.at < at {
				delete(since, e.who)
			}
		}
	}
	earliest := at
	for _, from := range since {
		earliest = min(earliest, from)
	}
	return earliest
}

// harmed reports whether a contender was killed or stopped, or gave up, between two instants.
func harmed(events []said, from, to clock.Instant) bool {
	return slices.ContainsFunc(events, func(e said) bool {
		return e.at >= from && e.at <= to && (e.word == "killed" || e.word == "stopped" || e.word == "gaveup")
	})
}
