package demo

import (
	"time"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/masters"
	"github.com/redquorum/redquorum/cmd/redlock/internal/terminal"
)

// Fixed parameters of the demo.
const (
	embeddedNodes = 5
	lockName      = "orders"
	keyPrefix     = "redlock-demo:"
	readyBound    = 5 * time.Second

	// A busy machine may need longer than planned until the stopped worker has written.
	overtimeBound = 10 * time.Second
)

// Limits of the flags.
const (
	minDuration = 3 * time.Second // with a shorter one, the TTL is only milliseconds
	maxDuration = time.Minute     // every hold is recorded and drawn
	minWorkers  = 2               // a single worker does not contend
	maxWorkers  = 16              // a line each
)

// Everything is a share of the duration, so the picture looks alike for any duration.
const (
	ttlShare       = 8
	shortHoldShare = 130 // more than half a column of a picture of 80 columns
	longHoldShare  = 80
	restShare      = 300 // between two holds of a worker: it soon waits again
	stopAtPercent  = 55
)

// A busy machine would lose a shorter TTL than this.
const minTTL = 300 * time.Millisecond

// config is the configuration of a demo.
type config struct {
	duration time.Duration
	workers  int
	nodes    []string      // endpoints of real nodes; nil: embedded ones
	ready    time.Duration // bounds the wait for a quorum of them; 0: readyBound
	look     terminal.Look
}

// check validates the flags. Package redlock validates the endpoints.
func (c *config) check(nodesGiven bool) error {
	switch {
	case c.duration < minDuration || c.duration > maxDuration:
		return cli.Usagef("--duration: %v is not between %v and %v", c.duration, minDuration, maxDuration)
	case c.workers < minWorkers || c.workers > maxWorkers:
		return cli.Usagef("--workers: %d is not between %d and %d", c.workers, minWorkers, maxWorkers)
	case nodesGiven && len(c.nodes) == 0:
		return cli.Usagef("--nodes: no endpoint")
	}
	return masters.CheckEmpty("--nodes", c.nodes)
}

func (c *config) ttl() time.Duration { return max(c.duration/ttlShare, minTTL) }

// holds returns the shortest and the longest time that a worker holds the lock.
func (c *config) holds() (shortest, longest time.Duration) {
	return c.duration / shortHoldShare, c.duration / longHoldShare
}

// retry is longer than a turn of all workers, so a poll shows that a wake-up was missing.
func (c *config) retry() (shortest, longest time.Duration) {
	shortHold, longHold := c.holds()
	turn := time.Duration(c.workers) * (shortHold + longHold) / 2
	return 2 * turn, 4 * turn
}

func (c *config) rest() time.Duration { return c.duration / restShare }

// stopAt is when a holder is stopped.
func (c *config) stopAt() time.Duration { return c.duration * stopAtPercent / 100 }
