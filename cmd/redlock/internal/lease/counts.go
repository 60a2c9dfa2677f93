package lease

import (
	"errors"
	"maps"
	"sync"

	"github.com/redquorum/redquorum/redlock"
)

// Count is what became of the requests for leases that came by one door.
type Count struct {
	Granted, Taken, Failed uint64
	Waiting                int // those that wait for one now
}

type counts struct {
	mu    sync.Mutex // guards doors
	doors map[string]Count
}

// begin counts a request. The function that it returns is told how it ended.
func (c *counts) begin(r *Request) (end func(error)) {
	waits := 0
	if r.Wait > 0 {
		waits = 1
	}
	c.add(r.Door, Count{Waiting: waits})
	return func(err error) {
		more := Count{Waiting: -waits}
		switch {
		case err == nil:
			more.Granted = 1
		case errors.Is(err, redlock.ErrTaken):
			more.Taken = 1
		default:
			more.Failed = 1
		}
		c.add(r.Door, more)
	}
}

func (c *counts) add(door string, more Count) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.doors == nil {
		c.doors = map[string]Count{}
	}
	n := c.doors[door]
	c.doors[door] = Count{n.Granted + more.Granted, n.Taken + more.Taken, n.Failed + more.Failed, n.Waiting + more.Waiting}
}

// Counts returns those of each door by which a request has come.
func (l *Leases) Counts() map[string]Count {
	l.counts.mu.Lock()
	defer l.counts.mu.Unlock()
	return maps.Clone(l.counts.doors)
}
