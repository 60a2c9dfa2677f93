package driver_test

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// client is a process with a Locker, which is closed now and then and replaced by a new one.
type client struct {
	run     *run
	plan    *clientPlan
	machine *machine // nil if it never sleeps
	clock   clock.Clock
	nodes   []*pool.Node // that its Lockers share, if they do
	network *network     // its own; nil if it has none

	mu   sync.Mutex // guards life
	life *life
}

// life is one Locker, from New to Close.
type life struct {
	client   *client
	locker   *redlock.Locker
	closed   atomic.Bool  // Close was called
	unlocked atomic.Bool  // UnlockAll was called
	got      atomic.Int64 // locks that calls returned

	mu     sync.Mutex // guards the fields below
	hooks  map[string]uint64
	states map[*redlock.Lock]string        // the last hook of a lock
	waited map[*redlock.Lock]time.Duration // what Waited was told of them
	nodes  map[string]bool                 // those that Node last said to vote
}

// newClient returns a client with a Locker.
func (r *run) newClient(p *clientPlan) *client { return r.newClientBehind(p, nil) }

// newClientBehind returns a client whose network is its own.
func (r *run) newClientBehind(p *clientPlan, n *network) *client {
	c := &client{run: r, plan: p, network: n}
	if p.sleeps {
		c.machine = &machine{world: r.clock, ahead: p.ahead}
	}
	c.clock = c.clockOf()
	if p.nodes {
		c.makeNodes()
	}
	c.life = c.open()
	return c
}

// blind reports whether the client does not look at all masters: Lockers over nodes connect to no
// others.
func (c *clientPlan) blind(masters int) bool { return c.nodes && len(c.list) < masters }

// makeNodes makes the nodes that all Lockers of the client share. They are closed in the end.
func (c *client) makeNodes() {
	for _, endpoint := range c.endpoints() {
		node, err := pool.NewNode(endpoint, append([]pool.Option{pool.WithClock(c.clock)}, c.run.dial...)...)
		c.run.promise("New takes what is valid", err == nil, "NewNode(%v): %v", endpoint, err)
		c.nodes = append(c.nodes, node)
	}
	c.run.mu.Lock()
	defer c.run.mu.Unlock()
	c.run.nodes = append(c.run.nodes, c.nodes...)
}

// endpoints returns those that the client lists.
func (c *client) endpoints() (endpoints []string) {
	for _, i := range c.plan.list {
		endpoints = append(endpoints, c.run.endpoints[i])
	}
	return endpoints
}

// open makes a Locker. It returns nil if that fails, which it must not.
func (c *client) open() *life {
	l := &life{client: c, hooks: make(map[string]uint64), states: make(map[*redlock.Lock]string), waited: make(map[*redlock.Lock]time.Duration), nodes: make(map[string]bool)}
	opts := append(slices.Clone(c.plan.opts), redlock.WithClock(c.clock), redlock.WithHooks(l.hooked()))
	if c.plan.logs {
		opts = append(opts, redlock.WithLogger(slog.New(logged{slog.DiscardHandler, l})))
	}
	var err error
	if c.plan.nodes {
		l.locker, err = redlock.NewFromNodes(c.nodes, opts...)
	} else {
		dial := c.run.dial
		if c.network != nil {
			dial = append(slices.Clone(dial), pool.WithDialer(c.network.Dial))
		}
		l.locker, err = redlock.New(c.endpoints(), append(opts, redlock.WithPool(dial...))...)
	}
	c.run.promise("New takes what is valid", err == nil, "New(%v): %v", c.plan.list, err)
	return l
}

func (c *client) current() *life {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.life
}

// hooked returns hooks that count, and look at their order.
func (l *life) hooked() redlock.Hooks {
	count := func(hook string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.hooks[hook]++
	}
	return redlock.Hooks{
		Acquired: func(lock *redlock.Lock) { l.moves(lock, "Acquired", "") },
		Waited: func(lock *redlock.Lock, d time.Duration) {
			l.moves(lock, "Waited", "Acquired")
			l.mu.Lock()
			defer l.mu.Unlock()
			l.waited[lock] = d
		},
		Renewed: func(lock *redlock.Lock) { l.moves(lock, "Renewed", whileHeld...) },
		Unrenewed: func(lock *redlock.Lock, err error) {
			l.moves(lock, "Unrenewed", whileHeld...)
			var votes *redlock.QuorumError
			l.client.run.promise("Unrenewed tells why", errors.As(err, &votes) && votes.Op == "extend" && errors.Is(err, redlock.ErrNoQuorum), "Unrenewed: %v", err)
			l.client.run.reachIf("a renewal that got no quorum", true)
		},
		Lost: func(lock *redlock.Lock, err error) {
			l.moves(lock, "Lost", whileHeld...)
			l.client.run.promise("Lost tells what Err does", errors.Is(err, redlock.ErrLost) && errors.Is(lock.Err(), redlock.ErrLost),
				"Lost: %v, Err: %v", err, lock.Err())
		},
		Released: func(lock *redlock.Lock) { l.moves(lock, "Released", whileHeld...) },
		Waiting:  func(string) { count("Waiting") },
		Refused: func(_ string, err error) {
			if !errors.Is(err, redlock.ErrInvalid) { // by another number of permits, which Stats does not count
				count("Refused")
				count(reasonOf(err))
			}
			l.client.run.promise("Refused tells why", errors.Is(err, redlock.ErrTaken) || errors.Is(err, redlock.ErrNoQuorum) ||
				errors.Is(err, redlock.ErrNoValidity) || errors.Is(err, redlock.ErrInvalid) || errors.Is(err, redlock.ErrLost), "Refused: %v", err)
		},
		Failed: l.toldOfFailure,
		Handed: func(string) { count("Handed") },
		Members: func(_ string, version int64, _ int) {
			l.client.run.reachIf("members that changed under a call", version > 1 && l.client.run.calls.Load() > 0)
		},
		Node: l.tellsOf,
	}
}

// whileHeld are the hooks of a lock that is held.
var whileHeld = []string{"Acquired", "Waited", "Renewed", "Unrenewed"}

// reasonOf returns what counts a round that did not get its lock.
func reasonOf(err error) string {
	switch {
	case errors.Is(err, redlock.ErrTaken):
		return "Taken"
	case errors.Is(err, redlock.ErrNoQuorum):
		return "NoQuorum"
	case errors.Is(err, redlock.ErrNoValidity):
		return "NoValidity"
	default:
		return "neither"
	}
}

// toldOfFailure is told of an attempt that failed, while its call goes on.
func (l *life) toldOfFailure(name string, err error) {
	r := l.client.run
	var votes *redlock.QuorumError
	why := errors.As(err, &votes) && votes.Op == "acquire" && is(err, redlock.ErrTaken, redlock.ErrNoQuorum, redlock.ErrNoValidity)
	goesOn := !is(err, redlock.ErrClosed, redlock.ErrInvalid, context.Canceled, context.DeadlineExceeded)
	r.promise("Failed tells why", why && goesOn && name != "", "Failed of %q: %v", name, err)
}

// tellsOf is told whether a node votes, or why not.
func (l *life) tellsOf(endpoint string, err error) {
	r := l.client.run
	l.mu.Lock()
	again := err == nil && l.nodes[endpoint]
	l.nodes[endpoint] = err == nil
	l.mu.Unlock()
	known := slices.ContainsFunc(r.endpoints, func(e string) bool { return strings.HasSuffix(endpoint, e) })
	r.promise("Node tells of changes", known && (!again || r.plan.unsettled()), "Node: %s: %v, and before that it voted: %t", endpoint, err, again)
}

// moves looks at the order of a lock's hooks: this one may follow some, or none.
func (l *life) moves(lock *redlock.Lock, hook string, after ...string) {
	l.mu.Lock()
	l.hooks[hook]++
	last := l.states[lock]
	l.states[lock] = hook
	l.mu.Unlock()
	l.client.run.promise("the order of hooks", slices.Contains(after, last), "%s of %q after %q", hook, lock.Name(), last)
}

// hasWaited reports whether a call waited for a lock.
func (l *life) hasWaited(lock *redlock.Lock) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, waited := l.waited[lock]
	return waited
}

// close closes the Locker, which the client has no longer, and looks at what Close promises.
func (l *life) close() {
	r, began := l.client.run, l.client.run.clock.Now()
	l.closed.Store(true)
	r.note(l.client.plan.who, "Close")
	before := l.locker.Stats()
	err := l.locker.Close()
	r.reachIf("Close under waiting calls", before.Waiting > 0)
	r.reachIf("Close with locks held", before.Held > 0)
	r.reachIf("Close gave up on a release", is(err, redlock.ErrUndelivered))
	limit := 2*l.client.plan.nodeTimeout(r.plan.maxTTL) + 2*time.Second // one of these for functions of Do
	r.promise("Close in time", r.since(began) <= limit+r.slack, "Close took %v, at most %v are promised", r.since(began), limit)
	r.promise("the error of Close", err == nil || errors.Is(err, redlock.ErrUndelivered), "Close: %v", err)
	node := new(redlock.NodeError)
	tells := errors.As(err, &node) || err != nil && strings.Contains(err.Error(), "functions of Do are still running")
	r.promise("the error of Close tells why", err == nil || tells, "Close: %v", err)
	again := l.locker.Close()
	r.promise("a second Close", errors.Is(again, err) || again != nil && err != nil && again.Error() == err.Error(), "Close: %v, and again: %v", err, again)
	s := l.locker.Stats()
	r.promise("after Close nothing is held", s.Held == 0 && s.Waiting == 0, "after Close, %d are held and %d wait", s.Held, s.Waiting)
	l.judgeHooks(&s)
	r.reachIf("a split vote", s.Split > 0)
	r.reachIf("a second round for a token", s.SecondRounds > 0)
	r.reachIf("a vote that was handed over", s.HandedOver > 0)
	r.reachIf("a waiter that was woken", s.Woken > 0)
	r.reachIf("a waiter that polled", s.Polls > 0)
}

// judgeHooks compares what the hooks were told with the statistics.
func (l *life) judgeHooks(s *redlock.Stats) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.HooksDropped > 0 {
		return
	}
	for hook, counted := range map[string]uint64{
		"Acquired": s.Acquired, "Refused": s.Taken + s.NoQuorum + s.NoValidity, "Renewed": s.Renewed, "Lost": s.Lost,
		"Taken": s.Taken, "NoQuorum": s.NoQuorum, "NoValidity": s.NoValidity,
		"Waiting": s.Waits, "Handed": s.HandedOver,
	} {
		l.client.run.promise("hooks and statistics: "+hook, l.hooks[hook] == counted,
			"%s: %s was called %d times, Stats has %d (%+v)", l.client.plan.who, hook, l.hooks[hook], counted, *s)
	}
	got := uint64(l.got.Load())
	l.client.run.promise("Stats.Acquired", s.Acquired >= got, "%d locks were acquired, Stats has %d", got, s.Acquired)
	l.client.run.promise("losses are logged", !l.client.plan.logs || l.hooks["log: lock lost"] == s.Lost, "%d were logged, Stats has %d", l.hooks["log: lock lost"], s.Lost)
	l.judgeWaits()
	l.client.run.promise("every lock ends once", l.hooks["Lost"]+l.hooks["Released"] == l.hooks["Acquired"],
		"%d acquired, %d lost and %d released", l.hooks["Acquired"], l.hooks["Lost"], l.hooks["Released"])
}

// logged counts what a Locker logs.
type logged struct {
	slog.Handler
	life *life
}

func (logged) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (g logged) Handle(_ context.Context, record slog.Record) error {
	g.life.mu.Lock()
	defer g.life.mu.Unlock()
	g.life.hooks["log: "+record.Message]++
	return nil
}

// judgeWaits compares what Waited was told with how long calls took. The tracer's time comes behind
// that.
func (l *life) judgeWaits() {
	r := l.client.run
	r.mu.Lock()
	handles := slices.Clone(r.handles)
	r.mu.Unlock()
	for _, h := range handles {
		d, waited := l.waited[h.lock]
		if !waited || !r.look || l.client.plan.sleeps {
			continue
		}
		took := h.hold.From.Sub(h.hold.Since)
		r.promise("Waited tells how long", d <= took && d >= took-r.plan.lingers-r.slack, "%v was waited for for %v, and Waited was told %v", h.hold, took, d)
	}
}

// replace gives the client a new Locker, and closes the old one while it is used.
func (c *client) replace() {
	next := c.open()
	c.mu.Lock()
	old := c.life
	c.life = next
	c.mu.Unlock()
	old.close()
}

// nodeTimeout returns how long a round of a lock with this TTL waits for a node.
func (c *clientPlan) nodeTimeout(ttl time.Duration) time.Duration {
	return min(cmp.Or(c.waits, min(max(ttl/20, 20*time.Millisecond), 500*time.Millisecond)), ttl)
}

// ends closes a node that Lockers have shared, once it has delivered all releases. All masters are
// up then.
func (r *run) ends(node *pool.Node) {
	ctx, cancel := context.WithTimeout(r.base, hangs)
	defer cancel()
	left, s := node.Drain(ctx), node.Stats()
	id, met := node.Identity()
	known := slices.ContainsFunc(r.endpoints, func(e string) bool { return strings.HasSuffix(node.Endpoint(), e) })
	r.promise("Drain waits until all is delivered", left == 0 && s.Kept == 0, "%d are left, and Stats: %+v", left, s)
	r.promise("what a node says", known && met && s.RunID == id.RunID && s.Endpoint == node.Endpoint() && (s.State == pool.Up) == (s.Err == nil && node.State() == pool.Up),
		"%s is %v: %+v, %+v", node.Endpoint(), node.State(), s, id)
	err := node.Close()
	r.promise("Close ends all connections", err == nil && node.State() == pool.Closed && node.Drain(ctx) == 0, "%v, and it is %v", err, node.State())
}
