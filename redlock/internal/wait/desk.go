package wait

import (
	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/redlock/internal/members"
)

// Desk has all of this package, for one Locker.
type Desk struct {
	Queue         Queue
	Crowds        Crowds
	Record        Record
	Pending       Pending
	Sightings     Sightings
	Pilots        *Pilots
	Subscriptions *Subscriptions
}

// Members says who the nodes are, which may become more, and whose votes count.
type Members interface {
	Nodes() []*pipeline.Node
	View() *members.View
}

// NewDesk returns a desk over some nodes. Channel is the prefix of the channel that wakes this
// process; closing ends all waiting.
func NewDesk(clk clock.Clock, ms Members, channel string, closing <-chan struct{}) *Desk {
	d := &Desk{Pilots: NewPilots(clk, ms), Subscriptions: NewSubscriptions(clk, ms, channel, closing)}
	d.Record.clock = clk
	return d
}
