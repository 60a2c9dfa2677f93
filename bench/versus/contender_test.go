package versus

import (
	"context"
	"errors"
	"math"
	"os"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"

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
	contention.RunWorker(openers)
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
		// Only the context ends a wait.
		options := []redsync.Option{redsync.WithExpiry(s.TTL), redsync.WithTries(math.MaxInt)}
		if pause > 0 {
			options = append(options, redsync.WithRetryDelay(pause))
		}
		return &redsyncContender{redsyncPeer: opened.(*redsyncPeer), name: s.Name, options: options}, nil
	}
}

type redsyncContender struct {
	*redsyncPeer
	name    string
	options []redsync.Option
}

func (c *redsyncContender) Lock(ctx context.Context) (func(context.Context) error, error) {
	mutex := c.redsync.NewMutex(c.name, c.options...)
	if err := mutex.LockContext(ctx); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		switch ok, err := mutex.UnlockContext(ctx); {
		case err != nil:
			return err
		case !ok:
			return errors.New("not released")
		default:
			return nil
		}
	}, nil
}

func (c *redsyncContender) Counters() map[string]uint64 { return nil }
func (c *redsyncContender) Close() error                { return c.close() }

// TestEveryContenderExcludes does what TestContention does, at a size that takes a moment.
func TestEveryContenderExcludes(t *testing.T) {
	if !contention.Supported {
		t.Skip("processes share no clock here")
	}
	servers := startServers(t)
	for _, c := range contenders {
		t.Run(c.name, func(t *testing.T) {
			s := contention.Scenario{
				Mutex: c.name, Servers: servers, Processes: 2, Goroutines: 2, TTL: 10 * time.Second,
				WarmUp: 100 * time.Millisecond, Window: time.Second,
			}
			r, err := s.Run()
			if err != nil {
				t.Fatal(err)
			}
			if r.Acquisitions == 0 || r.Commands < uint64(len(servers)*r.Acquisitions) {
				t.Errorf("%d acquisitions by %d commands, want some, and at least one command per server for each",
					r.Acquisitions, r.Commands)
			}
			if r.UnlockErrors > 0 {
				t.Errorf("%d unlocks failed: %s", r.UnlockErrors, r.UnlockError)
			}
		})
	}
}

func TestContenderGivesUpWithItsContextOnly(t *testing.T) {
	servers := startServers(t)
	var addresses []string
	for _, server := range servers {
		addresses = append(addresses, server.Addr())
		if _, err := server.Do("SET", "held", "by somebody"); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range contenders[1:] {
		mutex, err := c.open(t.Context(), contention.Setup{Addresses: addresses, Name: "held", Goroutines: 1, TTL: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		_, err = mutex.Lock(ctx)
		if err == nil || ctx.Err() == nil {
			t.Errorf("%s: Lock ended with %v before its context", c.name, err)
		}
		cancel()
		if err := mutex.Close(); err != nil {
			t.Error(err)
		}
	}
}
