package demo

import (
	"time"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
)

// What the demo does, apart from its flags.
const (
	embeddedNodes = 5
	lockName      = "orders"
	keyPrefix     = "redlock-demo:"
	readyBound    = 5 * time.Second

	// A machine that is busy with other things may need longer than planned until the stopped worker has written.
	overtimeBound = 10 * time.Second
)

// Limits of the flags.
const (
	minDuration = 3 * time.Second // shorter, and the TTL is a matter of milliseconds
	maxDuration = time.Minute     // every hold is recorded and drawn
	minWorkers  = 2               // one alone does not contend
	maxWorkers  = 16              // a line each
)

// Everything takes a share of the duration, so that the picture looks alike however long it lasts.
const (
	ttlShare       = 8
	shortHoldShare = 130 // more than half a column of a picture on 80 columns
	longHoldShare  = 80
	restShare      = 300 // between two holds of a worker: it soon waits again
	stopAtPercent  = 55
)

// A shorter TTL than this would be lost where the machine is busy.
const minTTL = 300 * time.Millisecond

// config is what a demo is run with.
type config struct {
	duration time.Duration
	workers  int
	nodes    []string // endpoints of real nodes; nil: embedded ones
	look     look
}

// check tells what is wrong with the flags. What is wrong with an endpoint, redlock.New tells.
func (c *config) check(nodesGiven bool) error {
	switch {
	case c.duration < minDuration || c.duration > maxDuration:
		return cli.Usagef("--duration: %v is not between %v and %v", c.duration, minDuration, maxDuration)
	case c.workers < minWorkers || c.workers > maxWorkers:
		return cli.Usagef("--workers: %d is not between %d and %d", c.workers, minWorkers, maxWorkers)
	case nodesGiven && len(c.nodes) == 0:
		return cli.Usagef("--nodes: no endpoint")
	}
	for i, node := range c.nodes {
		if node == "" {
			return cli.Usagef("--nodes: endpoint %d of %d is empty", i+1, len(c.nodes))
		}
	}
	return nil
}

func (c *config) ttl() time.Duration { return max(c.duration/ttlShare, minTTL) }

// holds returns the least and the most time for which a worker holds the lock.
func (c *config) holds() (shortest, longest time.Duration) {
	return c.duration / shortHoldShare, c.duration / longHoldShare
}

// retry is longer than a turn of all workers, so that polls show where a wake-up did not come.
func (c *config) retry() (shortest, longest time.Duration) {
	shortHold, longHold := c.holds()
	turn := time.Duration(c.workers) * (shortHold + longHold) / 2
	return 2 * turn, 4 * turn
}

func (c *config) rest() time.Duration { return c.duration / restShare }

// stopAt is when a holder is to be stopped.
func (c *config) stopAt() time.Duration { return c.duration * stopAtPercent / 100 }
