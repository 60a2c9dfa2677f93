package driver_test

import (
	"errors"

	"github.com/redquorum/redquorum/redlock"
)

// votes are those that an error tells, of so many masters.
type votes struct{ masters, granted, refused, failed int }

func votesOf(err *redlock.QuorumError, masters int) votes {
	return votes{masters, err.Granted, err.Refused, len(err.Nodes)}
}

// settles reports whether no vote that is still out can change what these decide: whether a quorum
// grants, whether one answers, and of a lock that is held, whether one refuses.
func (v votes) settles(held bool) bool {
	need, out := v.masters/2+1, v.masters-v.granted-v.refused-v.failed
	told := v.granted + v.refused
	if held {
		told = v.refused
	}
	return v.granted+out < need && (told >= need || told+out < need)
}

// late reports whether the last of them came when it was settled already. Masters that are down
// have all failed before any other vote comes.
func (v votes) late(held bool) bool {
	after := func(v votes) bool { return min(v.granted, v.refused, v.failed) < 0 || v.settles(held) }
	return v.granted+v.refused > 0 && after(votes{v.masters, v.granted - 1, v.refused, v.failed}) &&
		after(votes{v.masters, v.granted, v.refused - 1, v.failed}) && after(votes{v.masters, v.granted, v.refused, v.failed - 1})
}

// decided judges the votes by which one round was refused, of which neither a context nor Close cut
// off the last ones. Where a master has no vote and is not told of, or the caller knows fewer, it
// was settled earlier still. Errors of too few votes also tell of masters that had not answered.
func (a *actor) decided(call string, err error, ctx *limited, life *life, held bool) {
	var told *redlock.QuorumError
	cut := ctx.Err() != nil || life.closed.Load() || a.plan.unsettled() || explained.MatchString(err.Error())
	if cut || !is(err, redlock.ErrTaken, redlock.ErrLost) || !errors.As(err, &told) {
		return
	}
	if held && told.Refused < told.Need {
		return // the validity ended first, and the votes are of an earlier round
	}
	v := votesOf(told, a.plan.masters)
	a.promise("the votes of an error decided it", !v.late(held), "%s: %s: %+v: %v", a.who, call, v, err)
}
