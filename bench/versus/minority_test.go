package versus

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/bench/contention"
	"github.com/redquorum/redquorum/bench/load"
	"github.com/redquorum/redquorum/bench/versus/figures"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

// minorityPeers can lock while two of five servers do not answer. The limit waits for ever, and so
// does redsync over redigo, whose adapter ignores the context once a command is sent. redsync gets
// its own timeout back. With fail-fast, it waits for a quorum only.
var minorityPeers = []entry{
	{"redquorum", openRedquorumAsIs},
	{"redsync-rueidis", bounded(openRueidis)},
	{"redsync-rueidis-failfast", bounded(openRueidis, redsync.WithFailFast(true))},
}

// redsyncTimeout is how long redsync waits for the nodes by default, 0.05 of its expiry of 8 s. It
// leaves a release to the caller's context.
const redsyncTimeout = 400 * time.Millisecond

func bounded(open func(setup) (peer, error), options ...redsync.Option) func(setup) (peer, error) {
	return func(s setup) (peer, error) {
		opened, err := open(s)
		if err != nil {
			return nil, err
		}
		p := opened.(*redsyncPeer)
		p.unlock = redsyncTimeout
		p.options = append([]redsync.Option{redsync.WithTimeoutFactor(0.05)}, options...)
		return p, nil
	}
}

// lateness is half of what a round trip to a late server takes longer.
const lateness = 100 * time.Millisecond

// faulty is how many of the five servers have the fault.
const faulty = 2

// measureMinority measures the first moments of an outage and those after it, with one goroutine.
// A lock that fails counts with its latency. Every state and round has servers of its own, so no
// peer finds what an earlier outage left.
func measureMinority(t *testing.T, p *plan) figures.Experiment {
	t.Helper()
	slice := longSlices * p.slice
	e := figures.Experiment{Setup: fmt.Sprintf("one goroutine, the first %v of the outage of two of five servers", slice)}
	samples := make(map[string]map[string][]sample) // by state and peer
	for round := range p.longRounds {
		for turn := range p.states {
			state := p.states[(turn+round)%len(p.states)]
			if samples[state] == nil {
				samples[state] = make(map[string][]sample)
			}
			t.Run(fmt.Sprintf("%s/%d", state, round), func(t *testing.T) {
				contestants := startOutage(t, state, slice)
				for turn := range contestants {
					c := &contestants[(turn+round)%len(contestants)]
					s, err := c.measure(t.Context(), 1, load.Load{Duration: slice, GoOn: true})
					require.NoError(t, err, c.name)
					samples[state][c.name] = append(samples[state][c.name], s)
				}
			})
		}
	}
	if t.Failed() {
		t.FailNow()
	}
	names := append([]string{figures.Failed}, latencyValues...)
	for _, state := range p.states {
		for _, peer := range minorityPeers {
			e.Rows = append(e.Rows, newRow(peer.name, state, 0, samples[state][peer.name], names...))
		}
	}
	return e
}

// outageNames are more than a peer locks in a sample: with fail-fast, redsync leaves keys behind.
const outageNames = 1 << 17

// startOutage returns the peers on five new servers, of which two have the fault. It begins when
// all peers have locked, and ends before they close.
func startOutage(t *testing.T, state string, slice time.Duration) []contestant {
	t.Helper()
	servers := startServers(t)
	addresses := contention.AddressesOf(servers)
	var proxies []*redistest.Proxy
	for i := range faulty {
		proxies = append(proxies, redistest.NewProxy(t, addresses[i]))
		addresses[i] = proxies[i].Addr()
	}
	contestants := openOn(t, addresses, servers, minorityPeers, 1)
	for i := range contestants {
		// It connects. With their own timeouts, peers may fail on a busy machine.
		_, err := contestants[i].measure(t.Context(), 1, load.Load{Duration: slice / longSlices, GoOn: true})
		require.NoError(t, err, contestants[i].name)
		contestants[i].names = makeNames(fmt.Sprintf("versus/outage/%d", i), outageNames)
	}
	t.Cleanup(func() {
		for i := range proxies {
			proxies[i].Heal()
			assert.NoError(t, servers[i].Continue())
		}
	})
	for i, proxy := range proxies {
		switch state {
		case figures.Late:
			proxy.Delay(redistest.Both, lateness, 0)
		case figures.BlackHole:
			proxy.Drop(redistest.Both, true)
		case figures.Stopped:
			require.NoError(t, servers[i].Stop())
		}
	}
	return contestants
}
