package redlock

import "math/bits"

// count makes a tally of the votes of a round: bits of the nodes that granted, refused and failed.
// Votes that do not count are failed.
func (e *electorate) count(nodes int, granted, refused, failed uint64) tally {
	voting := e.present.Load().voting
	return tally{
		nodes:   nodes,
		granted: bits.OnesCount64(granted & voting),
		refused: bits.OnesCount64(refused & voting),
		failed:  bits.OnesCount64(failed | (granted|refused)&^voting),
	}
}

// counted returns those of the nodes whose votes count at present.
func (e *electorate) counted(nodes uint64) uint64 { return nodes & e.present.Load().voting }

// now returns the present epoch: what a lock that begins now need not fear.
func (e *electorate) now() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.epoch
}

// forgottenSince returns how many nodes have forgotten since an epoch.
func (e *electorate) forgottenSince(epoch uint64) (nodes int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range e.standings {
		if e.standings[i].restarted > epoch {
			nodes++
		}
	}
	return nodes
}
