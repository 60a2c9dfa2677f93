package fence

import (
	"github.com/redquorum/redquorum/internal/proof/search"
	"github.com/redquorum/redquorum/internal/proof/spec"
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
}

const (
	restartNodes   = 3
	restartClients = 2
	maxHorizon     = 12
)

// ExploreRestarts searches for a loss of counters that breaks a claim. Faulty, if it is set,
// replaces lost counters by one node whose clock and counter are wrong.
func ExploreRestarts(config RestartConfig, faulty *Faulty) search.Report {
	if config.Horizon+config.Skew > maxHorizon || faulty != nil && faulty.Highest > maxHorizon {
		panic("fence: no such world")
	}
	return search.Run(func() search.Model[era] {
		r := &restarter{RestartConfig: config, Faulty: faulty}
		r.one = spec.Entries[Value]{&r.scratch}
		return r
	})
}

type restarter struct {
	RestartConfig
	Faulty  *Faulty
	scratch spec.Entry[Value]
	one     spec.Entries[Value] // scratch
}

// An era is a world with a clock.
type era struct {
	now    int8
	losses int8 // that may still come
	begun  int8 // attempts, if they are counted
	tokens uint16
	nodes  [restartNodes]site  `search:"nodes"`
	tries  [restartClients]try `search:"clients"`
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
	votes  [restartNodes]ballot `search:"nodes"`
}

type ballot struct {
	fence int8 // 0 is none
	young bool // given while the node was out: counts once it no longer is
}

func (r *restarter) Start() era { return era{now: 1, losses: int8(r.Losses)} }

// Alike says that clients may change places, and nodes, unless the first is the faulty one.
func (r *restarter) Alike() search.Alike {
	alike := search.Alike{Nodes: search.Same(restartNodes), Clients: search.Same(restartClients)}
	if r.Faulty != nil {
		alike.Nodes = []int{0, 1, 1}
	}
	return alike
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

type eraVisitor func(next *era, e search.Event)

func (r *restarter) Each(w *era, visit func(next *era, e search.Event)) {
	r.tick(w, visit)
	idleSeen := false
	for c := range w.tries {
		if w.tries[c].phase != idle {
			r.attempt(w, c, visit)
		} else if !idleSeen {
			idleSeen = true
			r.begin(w, c, visit)
		}
	}
	for n := range w.nodes {
		if !r.Bare {
			r.late(w, n, visit)
		}
		r.forget(w, n, visit)
	}
	if r.Faulty != nil {
		r.spoil(w, visit)
	}
}

// tick is one step of time. Attempts whose validity ends with it are over.
func (r *restarter) tick(w *era, visit eraVisitor) {
	if int(w.now) == r.Horizon {
		return
	}
	next := *w
	next.now++
	for n := range next.nodes {
		at := &next.nodes[n]
		at.busy = false
		at.wait = max(at.wait-1, 0)
	}
	for c, one := range w.tries {
		if one.phase != idle && one.phase != mending && int(next.now-one.began) > r.TTL {
			next.end(c)
		}
	}
	visit(&next, search.Event{Kind: Ticked, Client: search.Nobody, Node: search.Nowhere, Number: int(next.now)})
}

func (r *restarter) begin(w *era, c int, visit eraVisitor) {
	if r.Attempts > 0 && int(w.begun) == r.Attempts {
		return
	}
	for skew := -r.Skew; skew <= r.Skew; skew++ {
		ts := int(w.now) + skew
		if ts < 0 || r.Bare && skew != -r.Skew && skew != r.Skew {
			continue
		}
		next := *w
		if r.Attempts > 0 {
			next.begun++
		}
		next.tries[c] = try{phase: asking, ts: int8(ts), began: w.now, floor: largest(w.tokens)}
		visit(&next, search.Event{Kind: Begun, Client: c, Node: search.Nowhere, Number: ts})
	}
}

func (r *restarter) attempt(w *era, c int, visit eraVisitor) {
	one := &w.tries[c]
	if one.phase == mending {
		r.mend(w, c, visit)
		return
	}
	for n := range w.nodes {
		at := &w.nodes[n]
		if at.busy && (r.Faulty == nil || n > 0) {
			continue
		}
		r.ask(w, c, n, one.ts, visit)
		if r.Faulty != nil && n == 0 && one.ts > at.fence+1 {
			r.ask(w, c, n, 0, visit) // its clock is far behind
		}
		if vote := one.votes[n].fence; one.phase == raising && vote > 0 && vote < one.target {
			if !r.follows(w, n, one.target) {
				visit(w, search.Event{Kind: NotFollowed, Client: c, Node: n, Number: int(one.target)})
				continue
			}
			r.load(at)
			if r.Faulty != nil {
				r.scratch.Key = valueOf(c)
			}
			if r.one.Raise(valueOf(c), int64(one.target)) {
				next := *w
				r.wrote(&next, c, n, int64(one.target))
				if r.Faulty != nil {
					next.nodes[n].key = at.key
				}
				visit(&next, search.Event{Kind: Raised, Client: c, Node: n, Number: int(one.target)})
			}
		}
	}
	if r.Faulty != nil {
		r.raiseInVain(w, c, visit)
	}
	if r.Faulty != nil && r.Faulty.MendUnconfirmed {
		r.mendUnconfirmed(w, c, visit)
	}
	r.conclude(w, c, visit)
	next := *w
	next.end(c)
	visit(&next, search.Event{Kind: GaveUp, Client: c, Node: search.Nowhere})
}

// ask is a SET, with the timestamp that the node reads from it.
func (r *restarter) ask(w *era, c, n int, ts int8, visit eraVisitor) {
	r.load(&w.nodes[n])
	if r.Faulty != nil {
		r.scratch.Key = nobody
	}
	if fence, ok := r.one.Acquire(valueOf(c), 0, int64(ts)); ok && r.has(fence) {
		next := *w
		r.wrote(&next, c, n, fence)
		if r.Faulty != nil && n > 0 {
			next.nodes[n].key = nobody
		}
		kind := Acquired
		if next.tries[c].votes[n].young {
			kind = AcquiredOut
		}
		visit(&next, search.Event{Kind: kind, Client: c, Node: n, Number: int(fence)})
	}
}

func (r *restarter) load(at *site) {
	r.scratch = spec.Entry[Value]{Key: at.key, Fence: int64(at.fence)}
}

// store puts the scratch entry back after its fence was written.
func (r *restarter) store(at *site) {
	at.key, at.fence, at.busy = r.scratch.Key, int8(r.scratch.Fence), true
	if r.Unused {
		at.wait = int8(r.Out)
	}
}

// wrote ends a script of a client. The vote is young if the node is out.
func (r *restarter) wrote(next *era, c, n int, fence int64) {
	at := &next.nodes[n]
	next.tries[c].votes[n] = ballot{int8(fence), !r.Unused && at.wait > 0}
	r.store(at)
}

// conclude is every decision, depending on which votes have arrived. A vote counts if the node gave
// it before it lost its counters, whether or not the client knows of that loss, or if the node
// is no longer out.
func (r *restarter) conclude(w *era, c int, visit eraVisitor) {
	one := &w.tries[c]
	var decided outcome
	for choice := range 1 << restartNodes {
		var votes [restartNodes]int64
		for n, vote := range one.votes {
			if choice>>n&1 == 1 && vote.fence > 0 && (!vote.young || w.nodes[n].wait == 0) {
				votes[n] = int64(vote.fence)
			}
		}
		if one.phase == asking {
			decided.add(First(votes[:]), votes[:])
		} else {
			decided.add(Second(votes[:], int64(one.target)), votes[:])
		}
	}
	for t := range int8(maxHorizon) {
		if decided.tokens>>t&1 == 1 {
			r.won(w, c, t+1, visit)
		}
		if decided.targets>>t&1 == 1 {
			next := *w
			next.tries[c].phase, next.tries[c].target = raising, t+1
			visit(&next, search.Event{Kind: SecondBegun, Client: c, Node: search.Nowhere, Number: int(t + 1)})
		}
	}
}

func (r *restarter) won(w *era, c int, token int8, visit eraVisitor) {
	e := search.Event{Kind: WonFirst, Client: c, Node: search.Nowhere, Number: int(token)}
	if w.tries[c].phase == raising {
		e.Kind = WonSecond
	}
	switch {
	case w.tokens>>(token-1)&1 == 1:
		e.Broken = unique
	case token <= w.tries[c].floor:
		e.Broken = ordered
	}
	next := *w
	next.tokens |= 1 << (token - 1)
	if r.mends(w, c, token) {
		mend := next
		mend.tries[c].phase, mend.tries[c].target = mending, token
		visit(&mend, e)
	}
	next.end(c)
	visit(&next, e)
}

// late is a SET of an attempt that is over, with a timestamp that is old, or as far ahead as a
// clock can be by now.
func (r *restarter) late(w *era, n int, visit eraVisitor) {
	at := &w.nodes[n]
	if at.busy {
		return
	}
	for _, ts := range [...]int8{0, w.now + int8(r.Skew)} {
		if ts > 0 && ts <= at.fence+1 {
			continue // as with 0
		}
		r.load(at)
		if fence, ok := r.one.Acquire(ghost, 0, int64(ts)); ok && r.has(fence) {
			next := *w
			r.store(&next.nodes[n])
			visit(&next, search.Event{Kind: AcquiredLate, Client: search.Nobody, Node: n, Number: int(fence)})
		}
	}
}

func (r *restarter) forget(w *era, n int, visit eraVisitor) {
	at := &w.nodes[n]
	if r.Faulty != nil {
		return // the owner of a key matters only to a mend, which may as well be lost
	}
	if at.key != nobody {
		next := *w
		next.nodes[n].key = nobody
		kind := ExpiredPresent
		if at.key == ghost {
			kind = ExpiredOver
		}
		visit(&next, search.Event{Kind: kind, Client: search.Nobody, Node: n})
	}
	if w.losses == 0 || at.fence == 0 || r.Unused && at.wait > 0 {
		return
	}
	next := *w
	next.losses--
	lost := &next.nodes[n]
	lost.fence = 0
	if !r.Unused { // a counter that expires takes nothing with it
		lost.key, lost.wait = nobody, int8(r.Out)
	}
	visit(&next, search.Event{Kind: CounterLost, Client: search.Nobody, Node: n})
}
