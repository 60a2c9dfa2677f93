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
