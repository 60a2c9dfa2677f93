package design

import "math/rand/v2"

const (
	maxNodes   = 7
	maxClients = 5
)

// A plan is everything that is random in a history but the delays of messages, which depend on its
// noise and on what the message is. A history is shrunk by leaving out items.
type plan struct {
	nodes, clients int
	permits        int  // of the semaphore; 0 for a lock
	fenced         bool // of a lock
	lawless        bool // time is not as assumed: tokens are all that is right
	noise          uint64
	items          []item
}

// An item of a plan. Which fields count depends on the kind.
type item struct {
	kind   kind
	client int8
	node   int8
	mask   uint8 // nodes, a bit each
	at     moment
	span   int64 // for how long, or by how much

	// Of a use.
	ttl, other int64 // in milliseconds; every second extension gives the other one
	hold       int64 // in microseconds, from when it is acquired
	tries      int8
	reads      bool
	renews     bool
}

// A planner makes plans. It is reused.
type planner struct {
	*rand.Rand
	source rand.PCG
	plan
}

func newPlanner() *planner {
	p := new(planner)
	p.Rand = rand.New(&p.source)
	return p
}

// make makes history number i of a seed. The plan is valid until the next one is made.
func (p *planner) make(seed, i uint64) *plan {
	p.source.Seed(seed, i*0x9e3779b97f4a7c15)
	p.plan = plan{
		nodes:   [...]int{1, 3, 3, 3, 4, 5, 5, 7}[p.IntN(8)],
		clients: [...]int{2, 2, 2, 3, 3, 3, 4, 5}[p.IntN(8)],
		fenced:  p.IntN(4) > 0,
		noise:   p.Uint64() | 1,
		items:   p.items[:0],
	}
	reads := p.IntN(2) == 0
	if p.IntN(4) == 0 {
		p.permits, p.fenced, reads = 1+p.IntN(min(3, p.clients)), false, false
	}
	p.lawless = p.fenced && p.IntN(8) == 0
	p.uses(reads)
	p.clocks()
	if p.nodes > 1 || p.IntN(2) == 0 {
		p.faults(p.IntN(8))
	}
	return &p.plan
}

func (p *planner) uses(reads bool) {
	ttl := [...]int64{200, 1000, 5000, 20_000, maxTTL}[p.IntN(5)]
	around := second
	for range p.clients + p.IntN(1+p.clients) {
		if p.IntN(4) == 0 { // the next ones are later, by up to more than a quarantine
			around += p.Int64N(80 * second)
		}
		u := item{kind: uses, client: int8(p.IntN(p.clients)), at: around, ttl: ttl, tries: int8(1 + p.IntN(5))}
		if i := len(p.items); i < p.clients {
			u.client = int8(i)
		}
		switch last := len(p.items) - 1; {
		case last >= 0 && p.IntN(4) == 0: // about when the lock of the last one ends
			u.at = p.items[last].at + p.items[last].ttl*(985+p.Int64N(20))
		case p.IntN(2) == 0:
			u.at += p.Int64N(ttl * millisecond)
		default:
			u.at += p.Int64N(20 * millisecond)
		}
		if p.IntN(3) == 0 {
			u.ttl = max(ttl/4, 200)
		}
		u.other = [...]int64{u.ttl, u.ttl, max(u.ttl/4, 100), min(2*u.ttl, maxTTL)}[p.IntN(4)]
		u.reads, u.renews = reads && p.IntN(3) > 0, p.IntN(2) == 0
		u.hold = p.Int64N(u.ttl*millisecond) * int64(1+p.IntN(2))
		p.items = append(p.items, u)
	}
}

func (p *planner) add(i item) { p.items = append(p.items, i) }

// either returns x or -x.
func (p *planner) either(x int64) int64 { return x * int64(1-2*p.IntN(2)) }

func (p *planner) clocks() {
	apart := p.IntN(3) == 0 // as far as they may be: nodes fast, clients slow
	fastest := int64(fastest)
	if p.lawless {
		fastest *= 6
	}
	for c := range int8(p.clients) {
		switch {
		case apart:
			p.add(item{kind: clientRate, client: c, span: -fastest})
		case p.IntN(3) == 0:
			p.add(item{kind: clientRate, client: c, span: p.either(p.Int64N(fastest) + 1)})
		}
		if p.fenced && p.IntN(2) == 0 {
			p.add(item{kind: clientWall, client: c, span: p.either(1 + p.Int64N([...]int64{second, second, 1000 * second}[p.IntN(3)]))})
		}
		if p.permits > 0 && p.permits < 3 && p.IntN(16) == 0 {
			p.add(item{kind: otherNumber, client: c, span: int64(p.permits) + 1})
		}
	}
	for n := range int8(p.nodes) {
		switch {
		case apart:
			p.add(item{kind: nodeRate, node: n, span: fastest})
		case p.IntN(3) == 0:
			p.add(item{kind: nodeRate, node: n, span: p.either(p.Int64N(fastest) + 1)})
		}
		if p.IntN(4) == 0 {
			p.add(item{kind: nodeOffset, node: n, span: p.either(1 + p.Int64N(5*second))})
		}
		if p.IntN(3) == 0 {
			p.add(item{kind: nodeDurable, node: n})
		}
	}
}

// faults adds some, each at about the time of a use. At most one node has a wrong clock or counter,
// of three or more (S22).
func (p *planner) faults(count int) {
	faulty := int8(p.IntN(p.nodes))
	if p.nodes >= 3 && !p.lawless && p.IntN(4) == 0 {
		p.add(item{kind: nodeFar, node: faulty, span: p.either(p.Int64N(1000 * second))})
	}
	used := 0
	for used < len(p.items) && p.items[used].kind == uses {
		used++
	}
	for range count {
		u := p.items[p.IntN(used)]
		f := item{kind: p.fault(), client: u.client, node: int8(p.IntN(p.nodes)), at: u.at}
		if p.IntN(4) == 0 {
			f.client = int8(p.IntN(p.clients))
		}
		f.mask = 1 << f.node
		if p.IntN(2) == 0 {
			f.mask |= uint8(p.IntN(1 << p.nodes))
		}
		ttl := u.ttl * millisecond
		switch p.IntN(3) {
		case 0: // while it is acquired
			f.at += p.Int64N(10*millisecond) - 5*millisecond
		case 1: // while it is held
			f.at += p.Int64N(ttl)
		default: // while it is extended
			f.at += ttl/3*int64(1+p.IntN(3)) + p.Int64N(5*millisecond)
		}
		f.span = 1 + p.Int64N([...]int64{10 * millisecond, second, ttl, 2 * ttl}[p.IntN(4)])
		switch {
		case f.kind == leaps, f.kind == turnsBack && p.lawless:
			f.span = p.Int64N(5 * second)
		case f.kind == spoils || f.kind == turnsBack:
			if f.node = faulty; p.nodes < 3 {
				continue
			}
			if f.kind == spoils {
				f.span = p.Int64N(1000 * second)
			}
		}
		p.add(f)
	}
}

// fault returns what may strike. Tokens rest on time where counters are lost (S16), and on one
// faulty node where one is ahead (S22).
func (p *planner) fault() kind {
	for {
		k := cuts + kind(p.IntN(int(numKinds-cuts)))
		anytime := k != dies && k != goesBack && k != flushes && k != spoils
		lawful := k != leaps && k != evicts
		if p.lawless && anytime || !p.lawless && lawful {
			return k
		}
	}
}
