package redlock

// partCopiesLocked takes two servers out whose markers have one incarnation, although each is said
// to be its own: one has what the other held, and was believed to have come back with its own.
// Which one it is cannot be known any more.
func (e *electorate) partCopiesLocked() (forgot bool) {
	for i := range e.standings {
		for k := range i {
			a, b := &e.standings[i], &e.standings[k]
			if a.phase != phaseVoting || b.phase != phaseVoting || a.marker.incarnation != b.marker.incarnation ||
				a.server.runID == unknown || b.server.runID == unknown || a.server.runID == b.server.runID {
				continue
			}
			for _, j := range [...]int{i, k} {
				n := &e.standings[j]
				n.phase, n.told = phaseQuarantined, n.known
				e.epoch++
				n.restarted, forgot = e.epoch, true
				e.sendLocked(j, n.server.quarantine(wordLost, max(e.maxTTL.Milliseconds(), n.marker.maxTTL)), nil)
			}
		}
	}
	return forgot
}

// findTwinsLocked finds the nodes that are the same server as an earlier one: by its run id, or
// where that is not told by the incarnation of its marker.
func (e *electorate) findTwinsLocked() {
	first := make(map[string]int, len(e.standings))
	for i := range e.standings {
		n := &e.standings[i]
		n.twin = -1
		if !n.met {
			continue
		}
		name := n.identity.RunID
		if name == "" {
			name = n.marker.incarnation
		}
		if name == "" {
			continue
		}
		if j, seen := first[name]; seen {
			n.twin = j
		} else {
			first[name] = i
		}
	}
}
