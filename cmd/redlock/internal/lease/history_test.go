package lease_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/cmd/redlock/internal/lease"
	"github.com/redquorum/redquorum/internal/proof/virtual"
	"github.com/redquorum/redquorum/redlock"
)

// span is a time for which a client may rely on a lease: from a reply on, until the TTL has ended
// or somebody with the token begins to release it.
type span struct {
	what        string // "grant" or "extension"
	name, token string
	called      time.Duration // when the call began
	from, until time.Duration
}

// history is what clients did.
type history struct {
	start time.Time

	mu       sync.Mutex
	spans    []span
	releases []span // from the beginning of the call until its end
	granted  int
	extended int
	released int
}

func (h *history) now() time.Duration { return time.Since(h.start) }

// cut ends the spans at the releases that may have been meant for them: also one that ended before
// the reply, and had seen the lease at the masters.
func (h *history) cut() {
	for i := range h.spans {
		s := &h.spans[i]
		for _, r := range h.releases {
			if r.name == s.name && r.token == s.token && r.until >= s.called {
				s.until = min(s.until, max(r.from, s.from))
			}
		}
	}
}

// lasting is for how long a release that outlives its context is under way at most, at masters that
// are well.
const lasting = 100 * time.Millisecond

// conflicts returns the spans that overlap, and are of two leases: of two grants, of two tokens, or
// of an extension and of a grant that was asked for later.
func (h *history) conflicts() (found []string) {
	h.cut()
	for i, a := range h.spans {
		for _, b := range h.spans[i+1:] {
			if a.name != b.name || a.from >= b.until || b.from >= a.until {
				continue
			}
			both := a.what == "grant" && b.what == "grant"
			later := a.what != b.what && (a.what == "extension" && b.called >= a.from || b.what == "extension" && a.called >= b.from)
			if both || later || a.token != b.token {
				found = append(found, fmt.Sprintf("%+v beside %+v", a, b))
			}
		}
	}
	return found
}

// act does one thing at one server, and notes what the client may rely on.
func (h *history) act(l *lease.Leases, draw *rand.Rand, name, token string) {
	ttl := time.Duration(200+draw.IntN(2000)) * time.Millisecond
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(1+draw.IntN(1500))*time.Millisecond)
	defer cancel()
	called := h.now()
	what := []string{"grant", "grant", "extension", "release"}[draw.IntN(4)]
	var err error
	switch what {
	case "grant":
		r := lease.Request{Name: name, Token: token, TTL: ttl, Silent: true}
		if draw.IntN(3) == 0 {
			r.Wait = time.Duration(draw.IntN(1000)+1) * time.Millisecond
		}
		_, err = l.Acquire(ctx, r)
	case "extension":
		_, err = l.Extend(ctx, name, token, ttl)
	case "release":
		err = l.Release(ctx, name, token)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	switch {
	case what == "release":
		ended := now
		if err == nil {
			h.released++
		} else {
			ended += lasting
		}
		h.releases = append(h.releases, span{what, name, token, called, called, ended})
	case err != nil:
	default:
		h.spans = append(h.spans, span{what, name, token, called, now, now + ttl})
		if what == "grant" {
			h.granted++
		} else {
			h.extended++
		}
	}
}

// Clients of two servers, which share names and tokens, give up waiting, ask again and come late;
// one master at a time dies, hangs or loses its replies, and servers end and begin.
func TestNoTwoLeasesOfANameAreValidAtOnce(t *testing.T) {
	sum := history{}
	for seed := range uint64(12) {
		virtual.InBubble(t, 3, func(t *testing.T, c *virtual.Cluster) {
			draw := rand.New(rand.NewPCG(seed, 1))
			for _, server := range c.Servers {
				slow := rand.New(rand.NewPCG(seed, draw.Uint64()))
				var mu sync.Mutex
				delay := func() time.Duration {
					mu.Lock()
					defer mu.Unlock()
					return time.Duration(slow.ExpFloat64() * float64(3*time.Millisecond))
				}
				server.Delay(delay, delay)
			}
			h := &history{start: time.Now()}
			var mu sync.Mutex // guards servers
			lockers := []*redlock.Locker{c.Locker(), c.Locker()}
			servers := []*lease.Leases{lease.New(lockers[0]), lease.New(lockers[1])}
			var clients sync.WaitGroup
			for id := range 8 {
				own := rand.New(rand.NewPCG(seed, uint64(100+id)))
				clients.Go(func() {
					for range 60 {
						mu.Lock()
						l := servers[own.IntN(2)]
						mu.Unlock()
						h.act(l, own, []string{"m", "n"}[own.IntN(2)], []string{"shared", fmt.Sprint("own", id)}[min(own.IntN(4), 1)])
						time.Sleep(time.Duration(own.IntN(300)) * time.Millisecond)
					}
				})
			}
			forgot := -1
			for range 12 {
				time.Sleep(time.Duration(500+draw.IntN(2000)) * time.Millisecond)
				which := draw.IntN(3)
				switch fault := draw.IntN(4); fault {
				case 0:
					c.Each(virtual.Deafen, which)
					time.Sleep(time.Duration(draw.IntN(2000)) * time.Millisecond)
					c.Each(virtual.Undeaf, which)
				case 1:
					c.Each(virtual.Stop, which)
					time.Sleep(time.Duration(draw.IntN(2000)) * time.Millisecond)
					c.Each(virtual.Resume, which)
				case 2:
					if forgot < 0 || forgot == which { // a quorum is to be there, and it is out for a minute
						c.Each(virtual.Empty, which)
						forgot = which
					}
				case 3:
					i := draw.IntN(2)
					_ = lockers[i].Close()
					mu.Lock()
					lockers[i] = c.Connecting(redlock.WithoutRenewal())
					servers[i] = lease.New(lockers[i])
					mu.Unlock()
				}
			}
			clients.Wait()
			require.Empty(t, h.conflicts(), "seed %d", seed)
			sum.granted += h.granted
			sum.extended += h.extended
			sum.released += h.released

			// Calm again, nothing is left of what is released anywhere.
			time.Sleep(70 * time.Second)
			for i := range 4 {
				token := fmt.Sprint("calm", i)
				_, err := servers[i%2].Acquire(context.Background(), lease.Request{Name: "m", Token: token, TTL: 20 * time.Second})
				require.NoError(t, err)
				time.Sleep(time.Second)
				require.NoError(t, servers[i/2].Release(context.Background(), "m", token))
				time.Sleep(time.Second)
			}
			for _, name := range []string{"m", "n"} { // a wait list may stay that masters were not told of
				c.Free(name)
			}
		})
	}
	t.Logf("%d grants, %d extensions, %d releases", sum.granted, sum.extended, sum.released)
	for _, n := range []int{sum.granted, sum.extended, sum.released} {
		require.Greater(t, n, 100, "the histories say something")
	}
}

func TestTheJudgeOfLeasesKnowsWhatConflicts(t *testing.T) {
	at := func(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }
	grant := func(token string, from, until float64) span {
		return span{"grant", "n", token, at(from), at(from), at(until)}
	}
	for _, one := range []struct {
		spans, releases []span
		conflict        bool
	}{
		{[]span{grant("a", 0, 2), grant("b", 1, 3)}, nil, true},
		{[]span{grant("a", 0, 2), grant("a", 1, 3)}, nil, true},
		{[]span{grant("a", 0, 2), grant("b", 2, 3)}, nil, false},
		{[]span{grant("a", 0, 2), grant("b", 1, 3)}, []span{{"release", "n", "a", 0, at(0.5), at(0.9)}}, false},
		{[]span{grant("a", 0, 2), grant("b", 1, 3)}, []span{{"release", "n", "b", 0, at(0.5), at(0.9)}}, true},
		{[]span{grant("a", 0, 2), {"extension", "n", "a", at(1), at(1), at(4)}, grant("a", 3, 5)}, nil, true},
		{[]span{grant("a", 0, 2), {"extension", "n", "a", at(1), at(1), at(4)}}, nil, false},
	} {
		h := &history{spans: slices.Clone(one.spans), releases: one.releases}
		require.Equal(t, one.conflict, len(h.conflicts()) > 0, "%+v", one)
	}
}
