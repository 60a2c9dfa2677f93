package members

import (
	"strconv"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/redlock/internal/members/core"
	"github.com/redquorum/redquorum/redlock/internal/members/record"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// asked returns when the first of these reports was asked for.
func asked(reports []core.Report) clock.Instant {
	first := never
	for i := range reports {
		first = min(first, reports[i].Asked)
	}
	return first
}

// change is the request for a new place and register, the latter with the time that it has, or with
// the present one if it is told.
type change struct {
	marker      record.Marker
	register    *record.Register // nil to leave it
	told        bool             // its time begins now
	due, latest int64            // by the master's clock; 0 for none
}

func (c *change) entry() wire.Entry {
	e := wire.Entry{Marker: c.marker.Text(), Due: c.due, Latest: c.latest}
	if c.register != nil {
		e.Register = c.register.Rest()
		if !c.told {
			e.Since = strconv.FormatInt(c.register.Since, 10)
		}
	}
	return e
}
