package handoff

import (
	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
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

// NewDesk returns a desk over some nodes. Voting returns whose votes count; channel is the prefix
// of the channel that wakes this process; closing ends all waiting.
func NewDesk(clk clock.Clock, nodes []*pipeline.Node, voting func() quorum.NodeSet, channel string, closing <-chan struct{}) *Desk {
	d := &Desk{Pilots: NewPilots(clk, nodes, voting), Subscriptions: NewSubscriptions(clk, nodes, channel, closing)}
	d.Record.clock = clk
	return d
}
