package design

import (
	"cmp"
	"slices"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/proof/history"
)

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
	log    *history.Timeline // nil if nobody reads it
	until  Claim             // which ends the log
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

// A moment is true time, in microseconds since the history began. Nobody in it knows it.
type moment = int64

const (
	millisecond = int64(1000)
	second      = 1000 * millisecond
	million     = 1_000_000

	// epoch is what a right clock shows when a history begins, so that no clock is below zero.
	epoch = 10_000 * second
)

// maxTTL is the largest time to live, in milliseconds, and how long a node has no vote after it
// forgot (WithMaxTTL).
const maxTTL = 60_000

// drifts is the allowance of the library, by default: 1 % and 2 ms.
var drifts = func() clock.Drift {
	d, err := clock.NewDrift(0.01, 2*time.Millisecond)
	if err != nil {
		panic(err)
	}
	return d
}()

// driftOf returns the allowance for a TTL, in microseconds, rounded up.
func driftOf(ttlMillis int64) int64 {
	d := drifts.Of(time.Duration(ttlMillis) * time.Millisecond)
	return int64((d + time.Microsecond - 1) / time.Microsecond)
}

// timeoutOf returns how long a round waits for nodes, in microseconds: a twentieth of the TTL, from
// 20 to 500 ms.
func timeoutOf(ttlMillis int64) int64 {
	return min(max(ttlMillis*millisecond/20, 20*millisecond), 500*millisecond)
}

// watch is the clock of one machine.
type watch struct {
	offset int64 // from a right clock, in microseconds
	ppm    int64 // by how many millionths it is too fast
}

// fastest is the largest rate of a clock that is right: two of them drift apart by less than 1 %.
const fastest = 4900

func (c watch) at(t moment) int64 { return epoch + c.offset + t + t*c.ppm/million }

// when returns the first moment at which the clock shows at least x.
func (c watch) when(x int64) moment {
	t := (x - epoch - c.offset) * million / (million + c.ppm)
	for c.at(t) >= x {
		t--
	}
	for c.at(t) < x {
		t++
	}
	return t
}

// A queue has the events that are still to come. Those of one moment come in the order in which
// they were added.
type queue struct {
	dues   []due   // the last one first: few are to come at a time
	events []event // of the whole history
	added  uint64
}

// due is when an event comes. The key has the moment above the number in which it was added.
type due struct {
	key   uint64
	event int32
}

const orderBits = 22

func (q *queue) reset() { q.dues, q.events, q.added = q.dues[:0], q.events[:0], 0 }

func (q *queue) add(at moment, e *event) {
	e.order = q.added
	q.added++
	q.put(at, e)
}

// put puts an event off, which comes in its old order among those of the moment: what one machine
// has waiting for it, it takes in the order in which that came.
func (q *queue) put(at moment, e *event) {
	key := uint64(at)<<orderBits | e.order
	place, _ := slices.BinarySearchFunc(q.dues, key, func(d due, key uint64) int { return cmp.Compare(key, d.key) })
	q.dues = slices.Insert(q.dues, place, due{key, int32(len(q.events))})
	q.events = append(q.events, *e)
}

// next takes the first event out. It reports false if there is none.
func (q *queue) next(e *event) (at moment, found bool) {
	last := len(q.dues) - 1
	if last < 0 {
		return 0, false
	}
	first := q.dues[last]
	q.dues = q.dues[:last]
	*e = q.events[first.event]
	return moment(first.key >> orderBits), true
}
