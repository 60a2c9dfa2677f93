package main

import "time"

// What the demo does, apart from its flags.
const (
	embeddedNodes    = 5
	workersPerLocker = 4 // a Locker, with its own connections, stands for a process
	demoTTL          = 2 * time.Second
	demoLockBound    = 2 * time.Second // how long Lock waits
	demoReadyBound   = 5 * time.Second
	demoKeyPrefix    = "redlock-demo:"
)

var demoNames = []string{"orders", "invoices", "reports"}

// Limits of the flags. Every hold is recorded, some 60 bytes each, and judged at the end.
const (
	minDemoDuration = time.Second // shorter, and stopped nodes are not back before the end
	maxDemoDuration = 10 * time.Minute
	maxDemoWorkers  = 128 // more of them only queue
)

// demoConfig is what a demo is run with.
type demoConfig struct {
	duration time.Duration
	workers  int
	nodes    []string // endpoints of real nodes; nil: embedded ones
	screen   *screen  // of the live view; nil: plain lines
}

// check tells what is wrong with the flags. What is wrong with an endpoint, redlock.New tells.
func (c *demoConfig) check(nodesGiven bool) error {
	switch {
	case c.duration < minDemoDuration || c.duration > maxDemoDuration:
		return usagef("--duration: %v is not between %v and %v", c.duration, minDemoDuration, maxDemoDuration)
	case c.workers < 1 || c.workers > maxDemoWorkers:
		return usagef("--workers: %d is not between 1 and %d", c.workers, maxDemoWorkers)
	case nodesGiven && len(c.nodes) == 0:
		return usagef("--nodes: no endpoint")
	}
	for i, node := range c.nodes {
		if node == "" {
			return usagef("--nodes: endpoint %d of %d is empty", i+1, len(c.nodes))
		}
	}
	return nil
}

// retry bounds the pauses of Lock: a long hold, and more where there are more workers, so that however many they are, they
// ask the nodes about as often.
func (c *demoConfig) retry() (shortest, longest time.Duration) {
	longest = max(holdLongest, time.Duration(c.workers)*2*time.Millisecond)
	return longest / 5, longest
}

func (c *demoConfig) lockers() int { return (c.workers + workersPerLocker - 1) / workersPerLocker }
