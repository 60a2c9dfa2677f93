package design

// A kind is what an item of a plan does.
type kind uint8

const (
	uses kind = iota // no fault

	// From the beginning.
	clientRate
	clientWall // of which timestamps are made
	nodeRate
	nodeOffset  // like those of other nodes
	nodeFar     // unlike those of other nodes
	nodeDurable // no fault either
	otherNumber

	// At their moment.
	cuts
	drops
	stalls
	mutes
	duplicates
	pauses
	crashes
	stops
	dies
	returns
	goesBack
	flushes
	turnsBack
	spoils
	leaps  // only where time is not as assumed
	evicts // likewise
	numKinds
)

// target is what an item hits, and unit what its span is.
type (
	target uint8
	unit   uint8
)

const (
	aClient target = iota
	aNode
	connections // of a client

	nothing unit = iota
	microseconds
	number
)

// kinds are what all kinds do.
var kinds = [numKinds]struct {
	name   string
	hits   target
	unit   unit
	effect func(w *world, it *item)
}{
	uses: {"uses the lock", aClient, nothing, nil},

	clientRate:  {"clock runs too fast, in ppm", aClient, number, func(w *world, it *item) { w.clients[it.client].ppm = it.span }},
	clientWall:  {"wall clock is off", aClient, microseconds, func(w *world, it *item) { w.clients[it.client].wall = it.span }},
	nodeRate:    {"clock runs too fast, in ppm", aNode, number, func(w *world, it *item) { w.nodes[it.node].ppm = it.span }},
	nodeOffset:  {"clock is off", aNode, microseconds, (*world).setOff},
	nodeFar:     {"clock is wrong", aNode, microseconds, (*world).setOff},
	nodeDurable: {"is durable", aNode, nothing, (*world).makeDurable},
	otherNumber: {"believes in another number of permits", aClient, number, func(w *world, it *item) { w.clients[it.client].permits = int8(it.span) }},

	cuts:       {"connections are cut", connections, microseconds, (*world).cut},
	drops:      {"connections are lost", connections, microseconds, (*world).cut},
	stalls:     {"requests are held back", connections, microseconds, (*world).stall},
	mutes:      {"replies are held back", connections, microseconds, (*world).stall},
	duplicates: {"next request is executed twice", connections, nothing, (*world).stall},
	pauses:     {"stops", aClient, microseconds, (*world).pause},
	crashes:    {"crashes", aClient, microseconds, (*world).crash},
	stops:      {"stops", aNode, microseconds, (*world).stop},
	dies:       {"dies, and loses its data", aNode, microseconds, (*world).die},
	returns:    {"dies, and keeps its data", aNode, microseconds, (*world).die},
	goesBack:   {"dies, and goes back to older data", aNode, microseconds, (*world).die},
	flushes:    {"loses its data", aNode, nothing, func(w *world, it *item) { w.nodes[it.node].forget(w.now) }},
	turnsBack:  {"clock is set back", aNode, microseconds, func(w *world, it *item) { w.nodes[it.node].offset -= it.span }},
	spoils:     {"counter is put ahead", aNode, microseconds, (*world).spoil},
	leaps:      {"clock leaps forward", aNode, microseconds, func(w *world, it *item) { w.nodes[it.node].offset += it.span }},
	evicts:     {"loses the key of the lock", aNode, nothing, (*world).evict},
}

// set applies the items of a plan that are so from the beginning, and puts the others into the
// queue.
func (w *world) set() {
	for i := range w.plan.items {
		it := &w.plan.items[i]
		switch {
		case it.kind == uses:
			c := &w.clients[it.client]
			c.pending = append(c.pending, int16(i))
		case it.kind < cuts:
			if it.kind != nodeDurable { // which is no fault
				w.faults++
			}
			kinds[it.kind].effect(w, it)
		default:
			if it.kind == goesBack {
				w.queue.add(max(it.at-it.span, 0), &event{kind: save, node: it.node})
			}
			w.queue.add(max(it.at, 0), &event{kind: strike, item: int16(i)})
		}
	}
}

// strike is a fault.
func (w *world) strike(it *item) {
	w.faults++
	w.say(it.whom(), "%s", it)
	kinds[it.kind].effect(w, it)
}

func (w *world) setOff(it *item) { w.nodes[it.node].offset = it.span }

func (w *world) makeDurable(it *item) {
	n := &w.nodes[it.node]
	n.durable, n.marker.durable = true, true
}

func (w *world) cut(it *item) {
	for n := range int8(w.plan.nodes) {
		if it.mask>>n&1 == 1 {
			w.disconnect(it.client, n, it.kind == drops, it.span)
		}
	}
}

// stall is what happens to connections that stand.
func (w *world) stall(it *item) {
	for n := range w.plan.nodes {
		l := &w.links[it.client][n]
		switch {
		case it.mask>>n&1 == 0:
		case it.kind == stalls:
			l.stalled = max(l.stalled, w.now+it.span)
		case it.kind == mutes:
			l.muted = max(l.muted, w.now+it.span)
		default:
			l.repeats = true
		}
	}
}

// pause stops a client, unless it is: what waits for the end of the one stop would come out of
// order.
func (w *world) pause(it *item) {
	if c := &w.clients[it.client]; c.paused <= w.now {
		c.paused = w.now + it.span
	}
}

// stop is pause for a node.
func (w *world) stop(it *item) {
	if n := &w.nodes[it.node]; n.stopped <= w.now {
		n.stopped = w.now + it.span
	}
}

func (w *world) spoil(it *item) {
	n := &w.nodes[it.node]
	n.lock.Fence = max(n.lock.Fence, n.at(w.now)+it.span)
}

func (w *world) evict(it *item) {
	n := &w.nodes[it.node]
	n.lock.Key, n.lock.Until = 0, 0
}

// forget loses all data.
func (n *node) forget(now moment) {
	n.data.clear()
	n.hurt = now
}

// die ends the process of a node. It comes back with another run.
func (w *world) die(it *item) {
	i, n := it.node, &w.nodes[it.node]
	if !n.up {
		return
	}
	n.up = false
	for c := range w.plan.clients {
		l := &w.links[c][i]
		l.up, l.admitted = false, false
		n.killed[c], l.lost = l.connection, l.connection
	}
	switch {
	case it.kind == dies:
		n.forget(w.now)
	case it.kind == goesBack && !n.durable: // a durable disk that is rolled back shows no sign
		n.data.copyFrom(&n.saved)
		n.hurt = w.now
	}
	w.queue.add(w.now+it.span, &event{kind: restart, node: i})
}

func (w *world) restart(i int8) {
	n := &w.nodes[i]
	n.up, n.stopped = true, 0
	w.runs++
	n.run = w.runs
	for c := range int8(w.plan.clients) {
		w.disconnect(c, i, true, millisecond)
	}
	w.say(nodeName(i), "is up again")
}

// crash ends the process of a client. The next one knows nothing of what it did.
func (w *world) crash(it *item) {
	c := &w.clients[it.client]
	if c.down {
		return
	}
	c.down, c.phase, c.use, c.extending = true, idle, nil, false
	for n := range w.plan.nodes {
		l := &w.links[c.id][n]
		l.up, l.admitted, l.known, l.stranger = false, false, false, true
		l.kept = l.kept[:0]
	}
	w.queue.add(w.now+it.span, &event{kind: restore, client: c.id})
}

func (w *world) restore(c *client) {
	c.down, c.paused = false, 0
	w.values++
	c.value = w.values
	for n := range int8(w.plan.nodes) {
		w.disconnect(c.id, n, false, millisecond)
	}
	w.after(c, c.at(w.now), begins)
}
