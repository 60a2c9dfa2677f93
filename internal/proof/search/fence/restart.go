package fence

import (
	"cmp"
	"math/bits"
	"runtime"
	"slices"

	"github.com/redquorum/redquorum/internal/proof/search"
)

// RestartConfig is how much a search for lost counters covers: three nodes, two clients at once,
// any number of attempts, and real time in steps. Timestamps are from clocks that are wrong by up
// to Skew.
//
// An attempt must have its token within TTL of its beginning, or gives up. Nothing else is assumed
// of keys and messages. A node writes a counter at most once in a step, so no counter runs ahead of
// all clocks: a step stands for the microsecond that timestamps count in, and no script is that
// fast.
//
// # How long is long enough
//
// Let s be the skew. No counter is above now + s. So a token that a node confirmed before it lost
// its counter at time L is at most L + s. An attempt that counts the node again ends at L + Out or
// later. It began no earlier than L + Out − TTL, and has a timestamp of at least L + Out − TTL − s,
// which its grant at that node is not below. It is above the token if Out > TTL + 2s. A counter
// that expires was confirmed to its last token Out before, and the same follows.
//
// All that counts of TTL is how long an attempt can take from its timestamp to its token.
type RestartConfig struct {
	TTL, Skew int
	Out       int // how long the votes of a node do not count after it lost its counters
	Horizon   int // the last step, from 1
	Losses    int // how many there may be

	// Unused is about counters that expire: one is lost only if it was not written for Out steps,
	// and the node votes at once.
	Unused bool

	// Bare leaves out late SETs, and clocks that are not wrong by all of Skew. It and Attempts are
	// for searches that cover more time.
	Bare     bool
	Attempts int // how many there may be, up to 7; 0 is any number

	// Faulty, if set, replaces lost counters by one node whose clock and counter are wrong.
	Faulty *Faulty
}

const (
	restartNodes   = 3
	restartClients = 2
	maxHorizon     = 12
)

// ExploreRestarts searches for a loss of counters that breaks a claim.
func ExploreRestarts(config RestartConfig) Report {
	if config.highest() > maxHorizon || config.Out > 7 || config.Losses > 3 || config.Attempts > 7 {
		panic("fence: more than a code can hold")
	}
	workers := make([]system[era], runtime.GOMAXPROCS(0))
	for i := range workers {
		r := &restarter{RestartConfig: config}
		r.one = Entries[Value]{&r.scratch}
		workers[i] = r
	}
	return search.Run(workers)
}

func (c RestartConfig) highest() int {
	if c.Faulty != nil {
		return c.Faulty.Highest
	}
	return c.Horizon + c.Skew
}

type restarter struct {
	RestartConfig
	scratch Entry[Value]
	one     Entries[Value] // scratch
}

// An era is a world with a clock.
type era struct {
	now    int8
	losses int8 // that may still come
	begun  int8 // attempts, if they are counted
	tokens uint16
	nodes  [restartNodes]site
	tries  [restartClients]try
}

type site struct {
	key   Value
	fence int8
	wait  int8 // steps until its votes count, or until its counter may expire
	busy  bool // granted in this step
}

// A try is an attempt. One answer per node is enough here: the last one.
type try struct {
	phase  phase
	ts     int8
	began  int8
	floor  int8
	target int8
	votes  [restartNodes]ballot
}

type ballot struct {
	fence int8 // 0 is none
	young bool // given while the node was out: counts once it no longer is
}

func (r *restarter) Start() era { return era{now: 1, losses: int8(r.Losses)} }

func (r *restarter) Encode(w *era) code {
	orders, same := [2][restartClients]int{{0, 1}, {1, 0}}, restartNodes
	if r.Faulty != nil {
		same-- // the first is the faulty one
	}
	return slices.MinFunc([]code{encodeEra(w, orders[0], same), encodeEra(w, orders[1], same)}, func(a, b code) int {
		return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]))
	})
}

// encodeEra sorts the last so many nodes, which are interchangeable.
func encodeEra(w *era, order [restartClients]int, same int) code {
	var renamed [firstClient + restartClients]Value
	renamed[ghost] = ghost
	for to, c := range order {
		renamed[valueOf(c)] = valueOf(to)
	}
	const bitsOfNode = 11 + 5*restartClients
	var columns [restartNodes]uint64
	for n, at := range w.nodes {
		v := uint64(renamed[at.key]) | uint64(at.fence)<<3 | uint64(at.wait)<<7 | uint64(b(at.busy))<<10
		for i, c := range order {
			vote := w.tries[c].votes[n]
			v |= (uint64(vote.fence) | uint64(b(vote.young))<<4) << (11 + 5*i)
		}
		columns[n] = v
	}
	slices.Sort(columns[len(columns)-same:])
	var p packer
	for _, column := range columns {
		p.put(bitsOfNode, column)
	}
	for _, c := range order {
		one := &w.tries[c]
		p.put(2, uint64(one.phase))
		for _, number := range [...]int8{one.ts, one.began, one.floor, one.target} {
			p.put(4, uint64(number))
		}
	}
	p.put(maxHorizon, uint64(w.tokens))
	p.put(4, uint64(w.now))
	p.put(2, uint64(w.losses))
	p.put(3, uint64(w.begun))
	return p.code
}

func (r *restarter) Decode(c code) (w era) {
	p := packer{code: c}
	for n := range w.nodes {
		at := &w.nodes[n]
		at.key, at.fence, at.wait, at.busy = Value(p.take(3)), int8(p.take(4)), int8(p.take(3)), p.take(1) == 1
		for i := range w.tries {
			w.tries[i].votes[n] = ballot{int8(p.take(4)), p.take(1) == 1}
		}
	}
	for i := range w.tries {
		one := &w.tries[i]
		one.phase = phase(p.take(2))
		for _, number := range [...]*int8{&one.ts, &one.began, &one.floor, &one.target} {
			*number = int8(p.take(4))
		}
	}
	w.tokens, w.now, w.losses = uint16(p.take(maxHorizon)), int8(p.take(4)), int8(p.take(2))
	w.begun = int8(p.take(3))
	return w
}

// end makes a client idle, and its key the ghost's.
func (w *era) end(c int) {
	w.tries[c] = try{}
	for n := range w.nodes {
		if w.nodes[n].key == valueOf(c) {
			w.nodes[n].key = ghost
		}
	}
}

func largest16(tokens uint16) int8 { return int8(bits.Len16(tokens)) }
