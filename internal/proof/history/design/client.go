package design

import "github.com/redquorum/redquorum/internal/proof/spec"

// A phase is how far a client is.
type phase uint8

const (
	idle       phase = iota
	asking           // in the first round
	raising          // fences to the token, in the second round
	collecting       // a slot by its number, in the second round
	held
	expired // and not released yet
)

// A timerKind is what a client does at a moment.
type timerKind uint8

const (
	begins  timerKind = iota // the next attempt
	decides                  // at the end of a round
	renews
	ends // what it has
	expires
	undoes // what expired
)

// client is one process that uses the lock, one attempt after the other.
type client struct {
	watch
	id      int8
	wall    int64 // what its wall clock is off by
	permits int8  // that it believes in; 0 for a lock
	paused  moment
	down    bool
	pending []int16 // its uses, as indices of items
	use     *item

	phase     phase
	value     int32
	round     int32
	tries     int8
	extended  int8
	extending bool
	reads     bool
	slot      int8
	ttl       int64 // in milliseconds
	start     int64 // of the round, by its clock
	until     int64 // of the validity, by its clock
	token     int64
	votes     [maxNodes]vote

	began     moment // when its attempt did
	sent      moment // when the present round began
	confirmed moment // when the round began that the lock is held by
	believes  moment // the end of the validity
}

func (w *world) after(c *client, local int64, what timerKind) {
	e := event{kind: timer, what: what, client: c.id}
	e.message.value, e.message.round = c.value, c.round
	w.queue.add(max(c.when(local), w.now), &e)
}

// ring is a timer.
func (w *world) ring(e *event) {
	c := &w.clients[e.client]
	switch {
	case c.down || e.message.value != c.value:
		return
	case w.now < c.paused:
		w.queue.put(c.paused, e)
		return
	}
	local := c.at(w.now)
	switch e.what {
	case begins:
		w.begin(c)
	case decides:
		if e.message.round == c.round {
			for n := range w.plan.nodes {
				if c.votes[n].answer == outstanding {
					c.votes[n].answer = failed
				}
			}
			w.decide(c)
		}
	case renews:
		if c.phase == held && !c.extending {
			w.extend(c)
		}
	case ends:
		if c.phase == held {
			w.sayClient(c, "releases")
			w.over(c)
		}
	case expires:
		if c.phase == held && local >= c.until && !(w.rules.LateVerdict && c.extending) {
			w.lose(c)
		}
	case undoes:
		if c.phase == expired {
			w.over(c)
		}
	}
}

// begin begins an attempt: of the present use, or of the next one.
func (w *world) begin(c *client) {
	if c.phase != idle {
		return
	}
	if c.use == nil {
		if len(c.pending) == 0 {
			return
		}
		next := &w.plan.items[c.pending[0]]
		if next.at > w.now {
			w.after(c, c.at(next.at)+1, begins)
			return
		}
		c.pending, c.use, c.tries = c.pending[1:], next, next.tries
	}
	w.values++
	c.value, c.phase, c.reads, c.extended, c.extending = w.values, asking, c.use.reads, 0, false
	c.token, c.slot, c.ttl, c.tries, c.began = 0, 0, c.use.ttl, c.tries-1, w.now
	w.sayClient(c, "begins an attempt")
	how, first := acquire, int8(0)
	if c.permits > 0 {
		how, first = take, int8(c.value%int32(c.permits))+1
	}
	w.ask(c, message{op: how, slot: first})
}

func b(is bool) uint8 {
	if is {
		return 1
	}
	return 0
}

// ask begins a round of all nodes, which counts from before its first byte.
func (w *world) ask(c *client, m message) {
	c.round++
	c.start, c.sent = c.at(w.now), w.now
	c.votes = [maxNodes]vote{}
	m.value, m.round, m.reads, m.permits, m.ttl = c.value, c.round, c.reads, c.permits, c.ttl
	if w.plan.fenced {
		m.number = c.start + c.wall
	}
	for n := range int8(w.plan.nodes) {
		l := &w.links[c.id][n]
		if !l.up || !l.admitted && m.op != extend && !w.rules.NoProof {
			c.votes[n].answer = failed
			continue
		}
		w.send(c.id, n, m)
	}
	w.after(c, c.start+timeoutOf(c.ttl), decides)
	w.decide(c)
}

// validity returns the end of the validity that the present round gives.
func (w *world) validity(c *client) int64 {
	start := c.start
	if w.rules.FromLastReply {
		start = c.at(w.now)
	}
	return start + c.ttl*millisecond - w.rules.allowance(c.ttl)
}

// win makes an attempt a held lock, if any validity is left.
func (w *world) win(c *client) {
	c.until = w.validity(c)
	local := c.at(w.now)
	if local >= c.until {
		w.fail(c)
		return
	}
	w.count(won)
	if c.phase == raising || c.phase == collecting {
		w.count(wonSecond)
	}
	c.phase = held
	c.believes = c.when(c.until)
	w.sayClient(c, "acquires")
	w.believe(c)
	w.judgeToken(c)
	w.clear(c)
	w.after(c, local+c.use.hold, ends)
	if c.use.renews {
		w.after(c, c.start+c.ttl*millisecond/3, renews)
	}
}

// believe is for a client that has a validity, confirmed by the present round.
func (w *world) believe(c *client) {
	c.confirmed = c.sent
	w.after(c, c.until, expires)
	w.judgeHolders(c)
	w.judgeKept()
}

// clear takes away what an attempt left besides, and brings counters back that are far ahead.
func (w *world) clear(c *client) {
	for n := range int8(w.plan.nodes) {
		v, l := &c.votes[n], &w.links[c.id][n]
		switch {
		case c.permits > 0 && (v.answer != granted || v.slot != c.slot):
			w.keep(c, n, message{op: release, slot: c.slot})
		case c.token > 0 && !c.reads && v.fence-c.token > 2*spec.Ahead && l.up:
			w.send(c.id, n, message{op: mend, value: c.value, given: v.fence, number: c.token + spec.Ahead})
		}
	}
}

// keep sends a release to a node, and again until it is answered.
func (w *world) keep(c *client, n int8, m message) {
	m.value, m.reads, m.permits = c.value, c.reads, c.permits
	l := &w.links[c.id][n]
	l.kept = append(l.kept, m)
	if l.up {
		w.send(c.id, n, m)
	}
}

// fail is the end of an attempt that was not won.
func (w *world) fail(c *client) {
	w.count(failures)
	w.sayClient(c, "does not acquire")
	use := c.use
	w.over(c)
	if c.tries > 0 {
		c.use = use
	}
}

// over releases what the client has, and goes on.
func (w *world) over(c *client) {
	for n := range int8(w.plan.nodes) {
		w.keep(c, n, message{op: release, last: true})
	}
	c.phase, c.use = idle, nil
	pause := 1 + int64(mix(w.plan.noise^uint64(c.value))%32)
	w.after(c, c.at(w.now)+c.ttl*millisecond*pause/64, begins)
}

// extend begins an extension. A shorter TTL shortens the validity before a byte is sent.
func (w *world) extend(c *client) {
	local := c.at(w.now)
	if local >= c.until {
		w.lose(c)
		return
	}
	if c.ttl = c.use.ttl; c.extended%2 == 0 {
		c.ttl = c.use.other
	}
	c.extended++
	c.extending = true
	c.start = local
	if until := w.validity(c); until < c.until && !w.rules.LateShortening {
		c.until, c.believes = until, c.when(until)
		w.after(c, until, expires)
	}
	w.ask(c, message{op: extend, slot: c.slot})
}

// extendedBy takes the verdict on an extension.
func (w *world) extendedBy(c *client, verdict ballot) {
	local := c.at(w.now)
	c.extending = false
	switch {
	case local >= c.until && !w.rules.LateVerdict: // the expiry comes at this moment
	case verdict == granted:
		w.count(extensions)
		if w.now >= c.believes {
			w.sayClient(c, "goes on")
			w.violate(Final, c)
		}
		if until := w.validity(c); until > c.until || w.rules.LateShortening {
			c.until = until
		}
		c.believes = c.when(c.until)
		w.sayClient(c, "extends")
		w.believe(c)
		w.after(c, c.start+c.ttl*millisecond/3, renews)
	case verdict == refused:
		w.count(denied)
		w.sayClient(c, "is told that the lock is gone")
		w.over(c)
	default:
		w.after(c, local+max(c.ttl*millisecond/12, 5*millisecond), renews)
	}
}

// lose is the end of the validity. What is left is released once all nodes have forgotten it.
func (w *world) lose(c *client) {
	w.count(lost)
	w.sayClient(c, "finds its validity ended")
	c.phase = expired
	w.after(c, c.until+driftOf(c.ttl), undoes)
}
