package design

// A counter counts what happened in histories, so a test can see that they went where they should.
type counter uint8

const (
	won counter = iota
	wonSecond
	failures
	extensions
	denied
	lost
	healed
	raises
	mended
	together // with another reader, or with the holder of another permit
	quarantined
	unproven
	killed
	repeated
	numCounters
)

var counterNames = [numCounters]string{
	"won", "won in a second round", "not won", "extended", "denied", "lost", "healed", "raised", "mended", "held together",
	"quarantined", "unproven", "killed with their connection", "executed twice",
}

// A world is where one history happens at a time. It is for one goroutine, and reused.
type world struct {
	rules   Rules
	plan    *plan
	now     moment
	queue   queue
	nodes   [maxNodes]node
	clients [maxClients]client
	links   [maxClients][maxNodes]link

	values, incarnations, runs int32 // that were given out

	verdicts
	faults int64
	counts [numCounters]int64
	log    *[]string // nil if nobody reads it
}

func (w *world) count(c counter) { w.counts[c]++ }

// mostEvents bounds a history. Those of our plans have a few thousand at most.
const mostEvents = 100_000

// play plays a history.
func (w *world) play(p *plan) {
	w.reset(p)
	w.set()
	for c := range p.clients {
		w.after(&w.clients[c], w.clients[c].at(0), begins)
	}
	var e event
	for range mostEvents {
		at, found := w.queue.next(&e)
		if !found {
			return
		}
		w.now = at
		switch e.kind {
		case request:
			w.arrive(&e)
		case reply:
			w.answer(&e)
		case timer:
			w.ring(&e)
		case connect:
			w.reconnect(&e)
		case restart:
			w.restart(e.node)
		case restore:
			w.restore(&w.clients[e.client])
		case save:
			w.nodes[e.node].saved.copyFrom(&w.nodes[e.node].data)
		case strike:
			w.strike(&p.items[e.item])
		}
	}
	panic("protocol: a history does not end")
}

func (w *world) reset(p *plan) {
	w.plan, w.now, w.faults = p, 0, 0
	w.queue.reset()
	w.values, w.incarnations, w.runs = 0, 1, 1
	w.verdicts = verdicts{tokens: w.tokens[:0]}
	for n := range p.nodes {
		w.nodes[n].reset()
	}
	for c := range p.clients {
		one := &w.clients[c]
		*one = client{id: int8(c), permits: int8(p.permits), pending: one.pending[:0]}
		for n := range p.nodes {
			l := &w.links[c][n]
			*l = link{connection: 1, up: true, admitted: true, known: true, incarnation: 1, run: 1, kept: l.kept[:0]}
		}
	}
}
