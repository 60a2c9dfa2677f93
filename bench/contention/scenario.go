package contention

import (
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

// Scenario is one measurement: goroutines of several processes want one name, again and again.
type Scenario struct {
	Mutex      string // its name in the table given to [RunWorker]
	Servers    []*redistest.Server
	Processes  int
	Goroutines int           // of each process
	Permits    int           // how many may hold the name at once; 0 is one
	Reads      float64       // the share of locks that are shared; above 0 only for a [ReadLocker]
	Hold       time.Duration // how long a lock is held; 0: released at once
	TTL        time.Duration
	Patience   time.Duration // for a server; 0: as the library chooses. Only redquorum has it
	WarmUp     time.Duration // before the window
	Window     time.Duration // measured
}

// lead is the time from the order to begin until workers first ask for locks. By then, all of them
// have the order.
const lead = 50 * time.Millisecond

// Run measures, and leaves the servers empty. It returns an [*OverlapError] if exclusion failed, or
// the error of a process, a server or a lock. It needs no context, because the times of the
// scenario bound it.
func (s *Scenario) Run() (*Result, error) {
	c, err := newCrew(spec{
		Mutex: s.Mutex, Addresses: addressesOf(s.Servers), Name: "contention/" + rand.Text(),
		Goroutines: s.Goroutines, Permits: s.Permits, Reads: s.Reads, Hold: s.Hold, TTL: s.TTL, Patience: s.Patience,
	}, s.Processes)
	if err != nil {
		return nil, err
	}
	from := now().Add(lead)
	times := run{From: from, Begin: from.Add(s.WarmUp), End: from.Add(s.WarmUp + s.Window)}
	reports, err := c.run(&times)
	if err = errors.Join(err, c.kill()); err != nil {
		return nil, err
	}
	keys, err := flush(s.Servers)
	if err != nil {
		return nil, err
	}
	result, err := newResult(reports, &times, max(s.Permits, 1))
	if err != nil {
		return nil, err
	}
	result.KeysLeft = keys
	return result, nil
}

// run orders a measurement, and returns the reports of the processes, in the order in which they
// end.
func (c *crew) run(times *run) ([]*report, error) {
	for _, p := range c.processes {
		if err := p.orders.Encode(order{Run: times}); err != nil {
			return nil, err
		}
	}
	var reports []*report
	reported := make(map[*process]bool)
	for len(reports) < len(c.processes) {
		e, err := c.await(times.End.Sub(now())+messageTimeout, func(e event) bool {
			return e.message.Report != nil || (e.ended && reported[e.from])
		})
		if err != nil {
			return nil, err
		}
		if e.message.Report != nil {
			reports = append(reports, e.message.Report)
			reported[e.from] = true
		}
	}
	return reports, nil
}

func addressesOf(servers []*redistest.Server) []string {
	var addresses []string
	for _, server := range servers {
		addresses = append(addresses, server.Addr())
	}
	return addresses
}

// flush deletes all keys, and returns how many there were on all servers together.
func flush(servers []*redistest.Server) (keys int, err error) {
	for _, server := range servers {
		found, err := server.Keys()
		if err == nil {
			err = server.Clear()
		}
		if err != nil {
			return 0, fmt.Errorf("contention: %w", err)
		}
		keys += len(found)
	}
	return keys, nil
}
