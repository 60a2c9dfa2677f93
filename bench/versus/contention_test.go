package versus

import (
	"context"
	"fmt"
	"math"
	"os"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/bench/contention"
)

// contenders are compared under contention for one name. The first is ours. The drivers are those
// of the peers. redsync waits by asking again, so its pause matters: its own, or 1 or 5 ms.
var contenders = []struct {
	name string
	open contention.Opener
}{
	{"redquorum", contention.OpenRedquorum},
	{"redsync-redigo", contend(openRedigo, 0)},
	{"redsync-redigo-1ms", contend(openRedigo, time.Millisecond)},
	{"redsync-redigo-5ms", contend(openRedigo, 5*time.Millisecond)},
	{"redsync-rueidis", contend(openRueidis, 0)},
	{"redsync-rueidis-1ms", contend(openRueidis, time.Millisecond)},
	{"redsync-rueidis-5ms", contend(openRueidis, 5*time.Millisecond)},
}

// TestMain is also the main function of the processes that contend.
func TestMain(m *testing.M) {
	openers := make(map[string]contention.Opener)
	for _, c := range contenders {
		openers[c.name] = c.open
	}
	contention.Play(openers)
	os.Exit(m.Run())
}

// contend makes a contender of redsync over a driver. A pause of 0 is redsync's own: 50 to 250 ms,
// at random.
func contend(open func(setup) (peer, error), pause time.Duration) contention.Opener {
	return func(_ context.Context, s contention.Setup) (contention.Mutex, error) {
		opened, err := open(setup{addresses: s.Addresses, goroutines: s.Goroutines, dial: s.Dial})
		if err != nil {
			return nil, err
		}
		c := opened.(*redsyncPeer)
		// Only the context ends a wait.
		c.options = []redsync.Option{redsync.WithExpiry(s.TTL), redsync.WithTries(math.MaxInt)}
		if pause > 0 {
			c.options = append(c.options, redsync.WithRetryDelay(pause))
		}
		return c, nil
	}
}

// BenchmarkContention has many processes want one name, or thousands of goroutines a thousand
// names. It fails when two held a name at once, or when a lock fails.
func BenchmarkContention(b *testing.B) {
	if !contention.Supported {
		b.Skip("processes share no clock here")
	}
	describe(b)
	const crowd, names = 10_000, 1000
	for _, size := range []struct{ processes, goroutines, names int }{
		{8, sized(8, 1), 1}, {1, sized(crowd, 8), sized(names, 2)}, {10, sized(crowd/10, 1), sized(names, 2)},
	} {
		s := contention.Scenario{
			Servers: startServers(b), Processes: size.processes, Goroutines: size.goroutines, Names: size.names, TTL: 30 * time.Second,
			WarmUp: sized(200*time.Millisecond, 50*time.Millisecond), Window: sized(800*time.Millisecond, 100*time.Millisecond),
		}
		if size.names > 1 {
			s.WarmUp, s.Window = sized(5*time.Second, s.WarmUp), sized(10*time.Second, s.Window)
		}
		for _, c := range contenders {
			if s.Mutex = c.name; c.name != contenders[0].name && (size.names > 1 || !*full) {
				continue
			}
			b.Run(fmt.Sprintf("names=%d/processes=%d/goroutines=%d/peer=%s", s.Names, s.Processes, s.Goroutines, c.name), func(b *testing.B) {
				for unit, figure := range s.Run(b).Figures() {
					b.ReportMetric(figure, unit)
				}
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// TestEveryContenderExcludes does what BenchmarkContention does, at a size that takes a moment. Two
// that hold the name at once are an error of Run.
func TestEveryContenderExcludes(t *testing.T) {
	if !contention.Supported {
		t.Skip("processes share no clock here")
	}
	servers := startServers(t)
	for _, c := range contenders {
		t.Run(c.name, func(t *testing.T) {
			s := contention.Scenario{
				Mutex: c.name, Servers: servers, Processes: 2, Goroutines: 2, TTL: 10 * time.Second, WarmUp: 50 * time.Millisecond,
			}
			for s.Window = 250 * time.Millisecond; ; s.Window *= 4 { // somebody locks in it, unless the machine is busy
				r := s.Run(t)
				require.Zero(t, r.UnlockErrors, r.UnlockError)
				require.GreaterOrEqual(t, r.Commands, uint64(len(servers)*r.Acquisitions), "one per server and lock, or more")
				if r.Acquisitions > 0 {
					return
				}
				require.Less(t, s.Window, time.Minute, "nobody locks")
			}
		})
	}
}

func TestContenderGivesUpWithItsContextOnly(t *testing.T) {
	servers := startServers(t)
	for _, server := range servers {
		_, err := server.Do("SET", "held", "by somebody")
		require.NoError(t, err)
	}
	for _, c := range contenders[1:] {
		mutex, err := c.open(t.Context(), contention.Setup{Addresses: contention.AddressesOf(servers), Goroutines: 1, TTL: time.Second})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		_, err = mutex.Lock(ctx, "held")
		require.Error(t, err, c.name)
		assert.Error(t, ctx.Err(), "%s: Lock ended with %v before its context", c.name, err)
		cancel()
		assert.NoError(t, mutex.Close())
	}
}
