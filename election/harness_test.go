package election_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/clock/clocktest"
	"github.com/redquorum/redquorum/election"
	"github.com/redquorum/redquorum/internal/fakeredis"
	"github.com/redquorum/redquorum/internal/proof/virtual"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

const (
	name    = "scheduler"
	termKey = "redquorum:terms:" + name
	latency = time.Millisecond // of a request, and of a reply
	ttl     = 2 * time.Second
)

func TestMain(m *testing.M) { virtual.OneProcessor(m) }

var ctx = context.Background()

// world is fake masters that vote, in virtual time, and what leaders did.
type world struct {
	t       *testing.T
	clock   *clocktest.Clock
	servers fakeredis.Cluster

	mu     sync.Mutex // guards the field below
	stints []*stint   // in the order in which they began
}

// stint is a time during which somebody led: from the call of lead until the end of its context.
type stint struct {
	id       string
	term     int64
	from, to time.Time // to is zero while it lasts
	cause    error     // of the end of the context
}

func inBubble(t *testing.T, test func(w *world)) {
	t.Helper()
	fakeredis.InBubble(t, 3, func(t *testing.T, clk *clocktest.Clock, servers fakeredis.Cluster) {
		w := &world{t: t, clock: clk, servers: servers}
		for _, server := range servers {
			server.Delay(func() time.Duration { return latency }, func() time.Duration { return latency })
		}
		test(w)
	})
}

// cable connects one Locker to the servers.
type cable struct {
	servers fakeredis.Cluster

	mu    sync.Mutex // guards the fields below
	cut   bool
	conns []net.Conn
}

func (c *cable) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := c.servers.Dial(ctx, network, address)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut && err == nil {
		return nil, errors.Join(errors.New("cut off"), conn.Close())
	}
	c.conns = append(c.conns, conn)
	return conn, err
}

// set cuts or mends the cable. For the servers, a Locker that is cut off has crashed.
func (c *cable) set(cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = cut
	for _, conn := range c.conns {
		if cut && conn != nil {
			_ = conn.Close()
		}
	}
	if cut {
		c.conns = nil
	}
}

// candidate is an Election and its Locker.
type candidate struct {
	*election.Election

	w      *world
	id     string
	locker *redlock.Locker
	cable  *cable

	end   context.CancelFunc // of Run
	ended chan error         // what Run returned
}

// stranger returns a candidate with a Locker of its own, which does not run yet.
func (w *world) stranger(id string, opts ...election.Option) *candidate {
	w.t.Helper()
	c := &cable{servers: w.servers}
	l, err := redlock.New(w.servers.Endpoints(), redlock.WithClock(w.clock), redlock.WithPool(pool.WithDialer(c.dial)), redlock.WithTTL(ttl))
	require.NoError(w.t, err)
	w.t.Cleanup(func() {
		if err := l.Close(); !errors.Is(err, redlock.ErrUndelivered) { // nodes may be away
			assert.NoError(w.t, err)
		}
	})
	time.Sleep(50 * time.Millisecond) // virtual: connect
	return (&candidate{w: w, locker: l, cable: c}).beside(id, opts...)
}

// beside returns another one with the same Locker.
func (c *candidate) beside(id string, opts ...election.Option) *candidate {
	c.w.t.Helper()
	e, err := election.New(c.locker, name, append([]election.Option{election.WithID(id)}, opts...)...)
	require.NoError(c.w.t, err)
	return &candidate{Election: e, w: c.w, id: id, locker: c.locker, cable: c.cable}
}

// candidate returns one that runs, and leads until its context ends.
func (w *world) candidate(id string, opts ...election.Option) *candidate {
	w.t.Helper()
	return w.stranger(id, opts...).runs(nil)
}

// runs makes it run until the test ends. When it leads, it calls then (if not nil), and waits until
// its context ends.
func (c *candidate) runs(then func(ctx context.Context) error) *candidate {
	ctx, cancel := context.WithCancel(context.Background())
	c.end, c.ended = cancel, make(chan error, 1)
	var over sync.WaitGroup
	over.Go(func() { c.ended <- c.Run(ctx, c.lead(then)) })
	c.w.t.Cleanup(func() { cancel(); over.Wait() })
	time.Sleep(10 * time.Millisecond) // virtual: it leads, or waits
	return c
}

// lead returns a function for Run that notes its stints.
func (c *candidate) lead(then func(ctx context.Context) error) func(context.Context, int64) error {
	return func(ctx context.Context, term int64) error {
		s := &stint{id: c.id, term: term, from: time.Now()}
		c.w.mu.Lock()
		c.w.stints = append(c.w.stints, s)
		c.w.mu.Unlock()
		context.AfterFunc(ctx, func() {
			c.w.mu.Lock()
			defer c.w.mu.Unlock()
			s.to, s.cause = time.Now(), context.Cause(ctx)
		})
		if then != nil {
			if err := then(ctx); err != nil {
				return err
			}
		}
		<-ctx.Done()
		return context.Cause(ctx)
	}
}

// leader returns who leads, as it sees it.
func (c *candidate) leader() election.Leader {
	c.w.t.Helper()
	leader, err := c.Leader(ctx)
	require.NoError(c.w.t, err)
	return leader
}

// inspect returns what its Locker sees of the lock.
func (c *candidate) inspect() admin.Status {
	c.w.t.Helper()
	status, err := admin.Of(c.locker).Inspect(ctx, name)
	require.NoError(c.w.t, err)
	return status
}

// led returns the stints so far, after asserting that none overlapped another and that terms grew.
func (w *world) led() []stint {
	w.t.Helper()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []stint
	for i, s := range w.stints {
		all = append(all, *s)
		if i == 0 {
			continue
		}
		before := all[i-1]
		assert.False(w.t, before.to.IsZero() || s.from.Before(before.to), "%s led until %v, %s from %v", before.id, before.to, s.id, s.from)
		assert.Greater(w.t, s.term, before.term)
	}
	return all
}

// last returns the last stint.
func (w *world) last() stint {
	w.t.Helper()
	all := w.led()
	require.NotEmpty(w.t, all)
	return all[len(all)-1]
}

// leads waits until an Election leads, and returns how long that took.
func (w *world) leads(all ...*candidate) (leader *candidate, took time.Duration) {
	w.t.Helper()
	for began := time.Now(); ; time.Sleep(100 * time.Microsecond) {
		i := slices.IndexFunc(all, func(c *candidate) bool { return c.IsLeader() })
		if i >= 0 {
			return all[i], time.Since(began)
		}
		if time.Since(began) > time.Minute {
			require.FailNow(w.t, "nobody leads")
		}
	}
}
