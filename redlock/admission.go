package redlock

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/pool"
)

// Bounds of asking.
const (
	askTimeout = time.Second // for one answer

	// A marker that keeps a node from voting is looked at again after these pauses, for others may
	// change it: those who make a new cluster active, and people ("redlock init").
	lookMin    = 2 * time.Millisecond
	lookMax    = time.Second
	quickLooks = 8 // the pauses of the first ones are half a second together

	// A server that has been up for long and has no marker was never used before, or its keys were
	// deleted while the connections of those who knew it stay. They find out by their patrols, and
	// have this time to object.
	objectionTime = patrolPause + 2*askTimeout/10

	// How often servers are asked for their marker: while locks are held, and otherwise.
	patrolPause = 800 * time.Millisecond
	patrolRest  = 4500 * time.Millisecond // before the connection would be PINGed as an idle one
)

// admission is a question to a server about its marker, or a change of it.
type admission struct {
	electorate *electorate
	node       int
	census     *census // that it is part of; nil for none
	request    pipeline.Request
	call       pipeline.Call
}

// readLocked takes what a node's marker says: now is the server's time, 0 where it did not tell. It
// reports whether the server forgot.
func (e *electorate) readLocked(i int, text string, now int64) (forgot bool) {
	n := &e.standings[i]
	if n.text != text {
		n.text, n.marker, n.heard = text, parseMarker(text), 0
	}
	waits := e.waitsForOthersLocked(i)
	v := e.viewLocked(i, now)
	j := n.server.judge(n.marker, v)
	if j.forgot && n.told != n.known {
		n.told = n.known
		e.epoch++
		n.restarted, forgot = e.epoch, true
	}
	n.phase = phaseQuarantined
	if j.votes {
		n.phase, n.known, n.until = phaseVoting, n.marker.incarnation, 0
	}
	if waits {
		n.retryAt = e.clock.Now().Add(n.pause.Next())
		return forgot
	}
	if v.early && n.marker.state == markerActive && n.server.is(n.marker) {
		n.until, n.retryAt = n.trusted, n.trusted
		return forgot
	}
	switch left := time.Duration(max(0, n.due(j)-now)) * time.Millisecond; {
	case j.change == nil:
	case now == 0 || left == 0:
		e.sendLocked(i, j.change, nil)
	default:
		here := e.clock.Now()
		n.until = here.Add(left + time.Millisecond) // both times are cut to milliseconds
		n.retryAt = min(n.until, here.Add(n.pause.Next()))
		n.looks++
		if n.marker.state == markerNew && n.identity.RunID != "" && n.identity.Started.Add(e.maxTTL) < here {
			written := n.until.Add(-time.Duration(n.marker.maxTTL) * time.Millisecond)
			n.objections = written.Add(objectionTime)
			if here < n.objections {
				n.retryAt = min(n.retryAt, n.objections)
			}
		}
	}
	return forgot
}

// due returns when a change may be made, by the server's time.
func (n *standing) due(j judgement) int64 {
	if j.change == nil {
		return 0
	}
	return j.change.due
}

// viewLocked returns what is known beside a node's marker.
func (e *electorate) viewLocked(i int, now int64) view {
	n := &e.standings[i]
	v := view{
		known: n.known, own: n.heard|1<<i == allNodes(len(e.standings)), maxTTL: e.maxTTL.Milliseconds(), now: now,
	}
	if n.pardoned != "" && n.pardoned == n.marker.incarnation {
		v.known = ""
	}
	v.early = v.known != "" && n.marker.incarnation != v.known && e.clock.Now() < n.trusted
	for k := range e.standings {
		v.own = v.own && (k == i || e.standings[k].marker.incarnation != n.marker.incarnation)
	}
	return v
}

// waitsForOthersLocked reports whether it must be heard from other nodes first if one of them has
// the incarnation of this one, which may have come back with all that it held. It asks them.
func (e *electorate) waitsForOthersLocked(i int) bool {
	n := &e.standings[i]
	out := allNodes(len(e.standings)) &^ (n.heard | 1<<i)
	late := e.clock.Now() >= n.identity.Connected.Add(e.maxTTL) // as long as the quarantine that it is about
	if n.early = false; out == 0 || late || n.known != "" || !n.server.isRestart(n.marker) {
		return false
	}
	for k := range e.standings {
		switch other := &e.standings[k]; {
		case out>>k&1 == 0 || e.nodes[k].State() == pool.Down:
		case !other.met:
			n.early = n.early || e.nodes[k].State() == pool.Connecting
		case other.asking == nil && other.phase != phaseProofless:
			n.early = true
			e.sendLocked(k, nil, nil)
		default:
			n.early = n.early || other.asking != nil
		}
	}
	return n.early
}

// heardLocked notes that a node has said what its marker is.
func (e *electorate) heardLocked(i int) {
	for k := range e.standings {
		if e.standings[k].early {
			e.standings[k].heard |= 1 << i
		}
	}
}

// sendLocked puts a change of a node's marker, or only a look at it, into the outbox.
func (e *electorate) sendLocked(i int, change *swap, of *census) {
	n := &e.standings[i]
	look := swap{}
	if change == nil {
		change = &look
	}
	a := &admission{electorate: e, node: i, census: of}
	args := []any{n.text, change.begin, change.rest, strconv.FormatInt(change.wait, 10), strconv.FormatInt(change.due, 10)}
	a.request = pipeline.Request{
		Script: memoryScript, Args: memoryScript.Args(nil, []any{pipeline.MemoryKey}, args...), Key: pipeline.MemoryKey,
		Accept: isMemoryReply, Deadline: e.clock.Now().Add(askTimeout), Sink: a,
	}
	a.call.Request = &a.request
	n.asking = a
	e.outbox = append(e.outbox, a)
}

// isMemoryReply reports whether a reply is one that memory.lua can give.
func isMemoryReply(reply any) bool {
	entries, _ := reply.([]any)
	if len(entries) != 2 {
		return false
	}
	_, ok := entries[0].([]byte)
	if !ok {
		return false
	}
	now, _ := entries[1].([]byte)
	_, ok = number(string(now), maxMarkerTime)
	return ok
}

// Complete takes the answer. It implements pipeline.Sink.
func (a *admission) Complete(_ *pipeline.Call, reply any, err error) {
	e := a.electorate
	e.mu.Lock()
	n := &e.standings[a.node]
	if e.stopped || n.asking != a {
		e.mu.Unlock() // of an earlier connection
		return
	}
	n.asking, n.err = nil, err
	if err != nil {
		e.census = nil
		e.failedLocked(n, err)
		e.endLocked(false)
		return
	}
	entries := reply.([]any)
	text := string(entries[0].([]byte))
	now, _ := number(string(entries[1].([]byte)), maxMarkerTime)
	m := parseMarker(text)
	if m.state == markerLost {
		n.server.hides = false // it has been told
	}
	if text != n.text && m.runID != "" && !n.server.fits(m) {
		// Who wrote it was told something else of this server than we were. Which of it is true
		// now, the next handshake tells; if each of us wrote what it believes, the two would go on
		// with that for ever.
		e.strangeLocked(n)
		e.endLocked(false)
		e.nodes[a.node].Reconnect(errStrange)
		return
	}
	forgot := false
	e.heardLocked(a.node)
	if c := a.census; c == nil {
		forgot = e.readLocked(a.node, text, now)
	} else {
		c.equal = c.equal && text == n.text
		c.out--
		forgot = e.readLocked(a.node, text, now) // also plans the next look, should the census be broken off
		if c == e.census && c.out == 0 {
			e.endCensusLocked()
		}
	}
	e.endLocked(forgot)
}

// errStrange is why a connection ends on which a marker does not fit what the handshake told.
var errStrange = errors.New("another server answers than at the beginning of the connection, or it was a replica since")

// strangeLocked takes a node out until its next connection.
func (e *electorate) strangeLocked(n *standing) {
	e.census = nil
	n.phase, n.retryAt, n.lost = phaseQuarantined, never, e.clock.Now().Add(askTimeout/2)
}

// failedLocked plans the next question after one that failed; where the user may not write the
// marker, there will be none.
func (e *electorate) failedLocked(n *standing, err error) {
	switch {
	case n.phase == phaseVoting: // it was to say what is true of it now, and the next connection will see to that
		return
	case isForbidden(err):
		e.meetProoflessLocked(n)
		return
	}
	n.retryAt = e.clock.Now().Add(n.pause.Next())
}

// isForbidden reports whether a server refuses a script what its user may not do, or does not know
// TIME, in the words of Redis 5 to 8.
func isForbidden(err error) bool {
	var words redis.Error
	if !errors.As(err, &words) {
		return false
	}
	return strings.HasPrefix(string(words), "NOPERM") || slices.ContainsFunc([]string{
		"The user executing the script can't", "ACL failure in script", "Unknown Redis command called from", "Unknown command called from",
	}, func(part string) bool { return strings.Contains(string(words), part) })
}
