package core

import (
	"strconv"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/redlock/internal/members/record"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// Change is a new marker and register for a master. It is made only if the master still says what
// its report has: so a step of a protocol that is based on a report is one comparison, and whoever
// was outrun changes nothing. What the register does not say anew (its time, where Anew is not
// set) it says as before, so a change keeps all that it is not about. It is the
// caller's: the report is a copy, and the register was made for it.
type Change struct {
	Of          Report
	Marker      record.Marker
	Register    *record.Register // nil to leave it
	Anew        bool             // the time of the register begins now; otherwise it stays
	Due, Latest int64            // when it may be made, by the master's clock; 0 for no limit
}

// Entry returns what a master is asked for, as members.lua takes it: with what the report has as
// the condition, which the shell sends along.
func (c *Change) Entry() wire.Entry {
	e := wire.Entry{Marker: c.Marker.Text(), Due: c.Due, Latest: c.Latest}
	if c.Register != nil {
		e.Register = c.Register.Rest()
		if !c.Anew {
			e.Since = strconv.FormatInt(c.Register.Since, 10)
		}
	}
	return e
}

// FirstAsked returns when the first of these reports was asked for.
func FirstAsked(reports []Report) clock.Instant {
	first := Never
	for i := range reports {
		first = min(first, reports[i].Asked)
	}
	return first
}
