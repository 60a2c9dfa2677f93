package redlock

import (
	"fmt"
	"strings"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/pool"
)

// why returns why a node's vote does not count, or nil where it does or nothing is known of it.
func (e *electorate) why(i int) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := &e.standings[i]
	now := e.clock.Now()
	switch {
	case e.present.Load().voting>>i&1 == 1 || !n.met:
		return nil
	case n.twin >= 0:
		return fmt.Errorf("%w: the same server as %s (run_id %s)", pool.ErrDuplicate, e.nodes[n.twin].Endpoint(), n.identity.RunID)
	case n.phase == phaseProofless:
		return fmt.Errorf("%w for another %v: %s", pool.ErrQuarantined, n.left(now), n.whyProofless(now))
	case n.err != nil:
		return fmt.Errorf("%w: its memory marker cannot be read or written: %w", pool.ErrQuarantined, n.err)
	case n.until <= now:
		return fmt.Errorf("%w: whether it remembers is being found out", pool.ErrQuarantined)
	case n.marker.state == markerActive:
		return fmt.Errorf("%w for another %v: another server answers there, or it forgot while nobody looked", pool.ErrQuarantined, n.left(now))
	case n.marker.state == markerNew:
		return fmt.Errorf("%w for another %v: %s", pool.ErrQuarantined, n.left(now), e.whyNewLocked())
	default:
		return fmt.Errorf("%w for another %v: it lost its keys, or was replaced, and may have forgotten locks", pool.ErrQuarantined, n.left(now))
	}
}

// left returns how long the quarantine will last.
func (n *standing) left(now clock.Instant) time.Duration {
	return max(n.until.Sub(now), 0).Round(time.Millisecond)
}

// whyNewLocked tells what a new master waits for.
func (e *electorate) whyNewLocked() string {
	var missing []string
	for i := range e.standings {
		n := &e.standings[i]
		switch {
		case !n.met || n.twin >= 0 || e.nodes[i].State() != pool.Up:
			missing = append(missing, e.nodes[i].Endpoint())
		case n.marker.state != markerNew || n.known != "":
			return "it had no memory when it was first met, and may have forgotten locks; or it votes after `redlock init --force`"
		}
	}
	switch {
	case e.mode == QuarantineStrict:
		return "a new master votes then, or at once after `redlock init`"
	case len(missing) == 0:
		return "a new master votes then, or in a moment if nobody knew it before"
	}
	return fmt.Sprintf("a new master votes then, or at once when %s is there too, or after `redlock init`", strings.Join(missing, ", "))
}

// whyProofless tells why a node without proof does not vote.
func (n *standing) whyProofless(now clock.Instant) string {
	id := n.identity
	if n.before.Connection != 0 && n.before.RunID != id.RunID {
		ago := max(now.Sub(id.Connected), 0).Round(time.Millisecond)
		return fmt.Sprintf("another server answers there since %v, which may not know all locks", ago)
	}
	ago := max(now.Sub(id.Started), 0).Round(time.Millisecond)
	return fmt.Sprintf("its server started %v ago and may have forgotten locks", ago)
}

// quarantinedFor returns how long a node's vote will not count, as far as is known; 0 where it
// does.
func (e *electorate) quarantinedFor(i int) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	if n := &e.standings[i]; n.met && e.present.Load().voting>>i&1 == 0 {
		return n.left(e.clock.Now())
	}
	return 0
}

// memory returns the state of a node's marker as a word.
func (e *electorate) memory(i int) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch e.standings[i].marker.state {
	case markerNew:
		return wordNew
	case markerLost:
		return wordLost
	case markerActive:
		return wordActive
	case markerAbsent, markerUnreadable:
	}
	return ""
}
