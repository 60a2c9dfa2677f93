package design

import "github.com/redquorum/redquorum/internal/proof/spec"

// An op is what a message asks of a node.
type op uint8

const (
	hello   op = iota // the first message of a connection: it kills the one before, and looks
	look              // reads the marker and the server's identity
	swap              // writes a marker, if it is as it was seen
	acquire           // a lock
	take              // any slot of a semaphore, or one
	extend
	raise   // the counter to a token
	mend    // the counter down to a number
	release // kept until it is answered
)

var opNames = [...]string{"hello", "look", "swap", "acquire", "take", "extend", "raise", "mend", "release"}

func (o op) String() string { return opNames[o] }

// A message is a request, and then its reply.
type message struct {
	op      op
	reads   bool
	again   bool  // it came before on this connection
	only    bool  // of a take: the slot by its number
	last    bool  // of a release: the attempt is over
	kills   bool  // of a hello: the connection before
	slot    int8  // of a semaphore, counted from 1; of a release the one to keep, or 0
	permits int8  // that the client believes in; 0 for a lock
	value   int32 // of the attempt
	round   int32
	ttl     int64  // in milliseconds
	number  int64  // the timestamp, the token, or what the counter is brought down to
	given   int64  // of a mend: the fence that the client was given
	seen    marker // of a swap: what the client read
	marker  marker // of a swap: what to write; of a reply: what there is, read behind the vote

	answer  spec.Answer // Extended is a vote; of an acquisition, too
	fence   int64
	free    uint8 // slots, a bit each
	now     int64 // by the node's clock, in microseconds
	run     int32 // the process of the node
	durable bool
}

// An eventKind is what comes.
type eventKind uint8

const (
	request eventKind = iota // arrives at a node
	reply                    // arrives at a client
	timer                    // of a client
	connect                  // a client tries to
	restart                  // of a node that died
	restore                  // of a client that crashed
	save                     // the data of a node, for an item that brings it back
	strike                   // an item of the plan
)

// An event is what comes at a moment.
type event struct {
	kind       eventKind
	what       timerKind
	client     int8
	node       int8
	item       int16
	connection int32  // of a message
	order      uint64 // in which it was added
	message    message
}

// A link is what is between a client and a node: one connection at a time, on which messages keep
// their order in both directions.
type link struct {
	connection int32 // the number of the latest
	up         bool
	admitted   bool // votes count under the incarnation and the run that follow
	known      bool // the client has known the node as active
	stranger   bool // the client's process does not know of the connection before
	repeats    bool // the next request is executed twice

	incarnation, run int32

	lost           int32  // connections up to this one have lost what was under way
	stalled, muted moment // requests and replies arrive no earlier
	asked, told    moment // when the last request and the last reply arrive

	kept []message // releases without an answer
}

// delay is how long a message takes: a millisecond without noise, otherwise it depends on what the
// message is, and on nothing before it.
func (w *world) delay(c, n int8, m *message, back bool) int64 {
	if w.plan.noise == 0 {
		return millisecond
	}
	h := w.plan.noise ^ uint64(m.value)<<40 ^ uint64(m.round)<<24 ^ uint64(m.op)<<16 ^ uint64(c)<<8 ^ uint64(n)<<4
	if back {
		h++
	}
	h = mix(h)
	size := 3 * millisecond
	switch h % 64 {
	case 0:
		size = 600 * millisecond
	case 1, 2, 3:
		size = 40 * millisecond
	}
	return 50 + int64(h>>8)%size&(1<<40-1)
}

// mix is the finalizer of SplitMix64.
func mix(h uint64) uint64 {
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// send sends a request on the present connection.
func (w *world) send(c, n int8, m message) {
	l := &w.links[c][n]
	e := event{kind: request, client: c, node: n, connection: l.connection, message: m}
	l.asked = max(w.now+w.delay(c, n, &m, false), l.stalled, l.asked)
	w.queue.add(l.asked, &e)
	if l.repeats && m.op != hello {
		l.repeats = false
		w.count(repeated)
		e.message.again = true
		l.asked += millisecond
		w.queue.add(l.asked, &e)
	}
}

// arrive is a request at a node.
func (w *world) arrive(e *event) {
	c, n, l := e.client, &w.nodes[e.node], &w.links[e.client][e.node]
	switch {
	case !n.up || e.connection <= l.lost:
		return
	case e.connection <= n.killed[c]:
		w.count(killed)
		return
	case w.now < n.stopped:
		w.queue.put(n.stopped, e)
		return
	}
	m := &e.message
	if m.op == hello && m.kills && !w.rules.KeepConnections {
		n.killed[c] = e.connection - 1
	}
	w.execute(n, m)
	w.sayExecuted(e)
	w.judgeNode(n, c, m)
	w.judgeKept()
	if m.again || e.connection < l.connection {
		return
	}
	m.marker, m.run, m.durable, m.now = n.marker, n.run, n.durable, n.at(w.now)
	e.kind = reply
	l.told = max(w.now+w.delay(c, e.node, m, true), l.muted, l.told)
	w.queue.add(l.told, e)
}

// answer is a reply at a client.
func (w *world) answer(e *event) {
	c, l, m := &w.clients[e.client], &w.links[e.client][e.node], &e.message
	switch {
	case e.connection != l.connection || e.connection <= l.lost || c.down:
		return
	case w.now < c.paused:
		w.queue.put(c.paused, e)
		return
	}
	switch m.op {
	case hello:
		l.up = true
		w.admit(e.client, e.node, m)
		for _, kept := range l.kept {
			w.send(e.client, e.node, kept)
		}
		return
	case look:
		w.admit(e.client, e.node, m)
		return
	case swap:
		m.op = look
		w.send(e.client, e.node, message{op: look})
		return
	case release:
		l.forget(m)
		return
	case mend:
		return
	case acquire, take, extend, raise:
	}
	proven := l.proves(m) || w.rules.NoProof || w.rules.AdmittedOnly && l.admitted && m.run == l.run
	if l.admitted && !proven {
		w.count(unproven)
		w.disconnect(e.client, e.node, true, millisecond)
	}
	if m.value == c.value && m.round == c.round {
		w.vote(c, e.node, m, proven)
	}
}

func (l *link) forget(m *message) {
	for i := range l.kept {
		if l.kept[i].value == m.value && l.kept[i].last == m.last {
			l.kept = append(l.kept[:i], l.kept[i+1:]...)
			return
		}
	}
}

// disconnect ends a connection. What is under way is lost, or arrives without an answer.
func (w *world) disconnect(c, n int8, lose bool, away int64) {
	l := &w.links[c][n]
	l.up, l.admitted = false, false
	if lose {
		l.lost = l.connection
	}
	w.queue.add(w.now+away, &event{kind: connect, client: c, node: n, connection: l.connection})
}

// reconnect is an attempt to connect, or to look again.
func (w *world) reconnect(e *event) {
	l := &w.links[e.client][e.node]
	switch {
	case e.connection != l.connection || w.clients[e.client].down:
	case e.message.op == look:
		if l.up && !l.admitted {
			w.send(e.client, e.node, message{op: look})
		}
	case !l.up:
		l.connection++
		l.stalled, l.muted, l.asked, l.told = 0, 0, 0, 0
		w.send(e.client, e.node, message{op: hello, kills: !l.stranger})
		l.stranger = false
	}
}

// A marker is what a node keeps to prove that it remembers.
type marker struct {
	state       spec.State
	durable     bool
	incarnation int32
	run         int32
	until       int64 // T, by the node's clock
}

// proves reports whether a reply shows that the node has kept everything since it was admitted on
// this connection.
func (l *link) proves(m *message) bool {
	return l.admitted && m.marker.state == spec.Active && m.marker.incarnation == l.incarnation &&
		m.marker.run == l.run && m.run == l.run
}

// admit is what a client does with what it read of a node on a new connection, or again.
func (w *world) admit(c, n int8, m *message) {
	l := &w.links[c][n]
	seen := m.marker
	facts := spec.Facts{
		State: seen.state, Own: seen.run == m.run, Durable: seen.durable, DurableNow: m.durable,
		Known: l.known, Passed: m.now >= seen.until,
	}
	if w.rules.TrustDisk {
		facts.Durable, facts.DurableNow = true, true
	}
	write := seen
	verdict := spec.Judge(facts)
	switch verdict {
	case spec.Wait:
		w.count(quarantined)
		w.queue.add(w.now+seen.until-m.now+millisecond, &event{
			kind: connect, client: c, node: n, connection: l.connection, message: message{op: look},
		})
		return
	case spec.Vote:
		l.admitted, l.known, l.incarnation, l.run = true, true, seen.incarnation, m.run
		return
	case spec.WriteNew, spec.WriteLost:
		wait := int64(maxTTL) * millisecond
		if w.rules.ShortQuarantine {
			wait /= 4
		}
		w.incarnations++
		write = marker{spec.Lost, m.durable, w.incarnations, m.run, m.now + wait}
		if verdict == spec.WriteNew {
			write.state = spec.New
		}
	case spec.ToLost:
		write.state = spec.Lost
	case spec.Activate:
		write.state = spec.Active
	case spec.TakeRun:
		write.run = m.run
	}
	w.send(c, n, message{op: swap, seen: seen, marker: write})
}
