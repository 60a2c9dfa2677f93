package design

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
	if w.log != nil {
		w.sayExecuted(e)
	}
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
