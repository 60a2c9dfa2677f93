package fence

import "math/bits"

// A Kind is what a step is. A report counts them, so a test can see that a search went where it
// should.
type Kind uint8

// What a step may be; [Kind.String] says it in words.
const (
	Begun Kind = iota
	BegunWaiting
	BegunAdopting
	Acquired
	AcquiredAgain
	AcquiredLate
	AcquiredOut
	Piloted
	PilotedAgain
	Confirmed
	Joined
	JoinedAfterGrant
	AdoptedOver
	AdoptedPresent
	Raised
	RaiseRefused
	RaisedLate
	RaisedInVain
	WonFirst
	WonSecond
	SecondBegun
	GaveUp
	SecondFailed
	Deleted
	HandedOver
	HandedPastDead
	DeletedPastDead
	ExpiredPresent
	ExpiredOver
	ListExpired
	CounterLost
	ValueReused
	HandOverTrusted
	AdoptionTrusted
	Ticked
	Spoiled
	NotFollowed
	Mended
	numKinds
)

var kindNames = [numKinds]string{
	Begun:            "begins",
	BegunWaiting:     "begins, and will wait",
	BegunAdopting:    "begins to adopt",
	Acquired:         "SET is granted",
	AcquiredAgain:    "SET is run again, and granted",
	AcquiredLate:     "SET of an attempt that is over is granted",
	AcquiredOut:      "SET is granted by a node that is out",
	Piloted:          "pilot grants",
	PilotedAgain:     "pilot grants again",
	Confirmed:        "vote that was handed over is confirmed",
	Joined:           "joins the waiters",
	JoinedAfterGrant: "joins the waiters after it was granted",
	AdoptedOver:      "adopts the lock of an attempt that is over",
	AdoptedPresent:   "adopts the lock of a present attempt",
	Raised:           "fence is raised",
	RaiseRefused:     "fence is not raised",
	RaisedLate:       "fence is raised by an attempt that is over",
	RaisedInVain:     "fence is raised in vain",
	WonFirst:         "acquires in the first round",
	WonSecond:        "acquires in the second round",
	SecondBegun:      "begins the second round",
	GaveUp:           "gives up in the first round",
	SecondFailed:     "gives up in the second round",
	Deleted:          "release deletes the key",
	HandedOver:       "release hands the key over",
	HandedPastDead:   "release hands the key over, past a dead waiter",
	DeletedPastDead:  "release deletes the key, all waiters are dead",
	ExpiredPresent:   "key of a present attempt expires",
	ExpiredOver:      "key of an attempt that is over expires",
	ListExpired:      "list of waiters expires",
	CounterLost:      "node loses key and counter",
	ValueReused:      "begins again with the same value, and with its answers",
	HandOverTrusted:  "counts the vote that was handed over, as it is",
	AdoptionTrusted:  "adopts, and counts the fence as it is",
	Ticked:           "time goes on",
	Spoiled:          "counter is put far ahead, or anew",
	NotFollowed:      "fence is too far ahead to be raised to",
	Mended:           "counter is brought back",
}

func (k Kind) String() string { return kindNames[k] }

type visitor func(next *world, e event)

func (x *explorer) Each(w *world, visit func(next *world, e event)) {
	idleSeen := false
	for c := range x.Clients {
		if w.clients[c].phase != idle {
			x.attempt(w, c, visit)
		} else if !idleSeen { // all idle clients are the same
			idleSeen = true
			x.begin(w, c, visit)
		}
	}
	for n := range x.Nodes {
		x.late(w, n, visit)
		x.release(w, n, visit)
		x.forget(w, n, visit)
	}
}

func (x *explorer) begin(w *world, c int, visit visitor) {
	next := *w
	fresh := client{phase: asking, floor: largest(w.tokens), pilot: nowhere}
	next.clients[c] = fresh
	visit(&next, event{kind: Begun, client: int8(c), node: nowhere})
	if x.Adopting {
		next.clients[c].adopts = true
		visit(&next, event{kind: BegunAdopting, client: int8(c), node: nowhere})
	}
	if x.Waiting {
		for n := range x.Nodes {
			next.clients[c] = fresh
			next.clients[c].pilot = int8(n)
			visit(&next, event{kind: BegunWaiting, client: int8(c), node: int8(n)})
		}
	}
}

// attempt is every step of an attempt under way.
func (x *explorer) attempt(w *world, c int, visit visitor) {
	one := &w.clients[c]
	for n := range x.Nodes {
		switch {
		case one.adopts:
			x.adopt(w, c, n, visit)
		case int(one.pilot) == n:
			x.pilot(w, c, n, visit)
		default:
			x.acquire(w, c, n, visit)
		}
		if one.phase == raising && one.answers[n]&isBelow != 0 {
			x.raise(w, c, n, visit)
		}
		if one.phase == asking && one.answers[n] != 0 && x.LateRaises {
			x.raiseInVain(w, c, n, visit)
		}
	}
	x.conclude(w, c, visit)
	next := *w
	next.end(c)
	kind := GaveUp
	if one.phase == raising {
		kind = SecondFailed
	}
	visit(&next, event{kind: kind, client: int8(c), node: nowhere})
	if x.KeepAnswers && one.phase == asking {
		next := *w
		next.clients[c].floor = largest(w.tokens)
		visit(&next, event{kind: ValueReused, client: int8(c), node: nowhere})
	}
}

// end makes a client idle. What its attempt left behind is the ghost's.
func (w *world) end(c int) {
	w.clients[c] = client{pilot: nowhere}
	for n := range w.nodes {
		at := &w.nodes[n]
		if at.key == valueOf(c) {
			at.key = ghost
		}
		kept := 0
		for _, waiter := range at.waiting {
			if waiter != valueOf(c) {
				at.waiting[kept] = waiter
				kept++
			}
		}
		clear(at.waiting[kept:])
	}
}

// conclude is every decision that the answers of an attempt allow.
func (x *explorer) conclude(w *world, c int, visit visitor) {
	one := &w.clients[c]
	decided := x.decide(one)
	for rest := decided.tokens; rest != 0; rest &= rest - 1 {
		t := int8(bits.TrailingZeros8(rest)) + 1
		e := event{kind: WonFirst, client: int8(c), node: nowhere, number: int64(t)}
		if one.phase == raising {
			e.kind = WonSecond
		}
		switch {
		case w.tokens>>(t-1)&1 == 1 && !x.OnlyOrder:
			e.broken = unique
		case t <= one.floor:
			e.broken = ordered
		}
		next := *w
		next.tokens |= 1 << (t - 1)
		next.end(c)
		visit(&next, e)
	}
	for rest := decided.targets; rest != 0; rest &= rest - 1 {
		next := *w
		next.clients[c].aim(int8(bits.TrailingZeros8(rest)) + 1)
		visit(&next, event{kind: SecondBegun, client: int8(c), node: nowhere, number: int64(next.clients[c].target)})
	}
}

// aim begins the second round.
func (c *client) aim(target int8) {
	was := c.answers
	c.phase, c.target, c.answers = raising, target, [maxNodes]uint8{}
	for n, grants := range was {
		for ; grants != 0; grants &= grants - 1 {
			c.note(n, int64(bits.TrailingZeros8(grants))+1)
		}
	}
}

// note records a grant, or a raise that succeeded.
func (c *client) note(n int, fence int64) {
	switch {
	case c.phase == asking:
		c.answers[n] |= 1 << (fence - 1)
	case fence < int64(c.target):
		c.answers[n] |= isBelow
	case fence == int64(c.target):
		c.answers[n] |= isAt
	}
}
