package driver_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redquorum/redquorum/clock/clocktest"
	"github.com/redquorum/redquorum/internal/fakeredis"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// virtual returns a world of fake masters. It must be called in a bubble.
func virtual(t *testing.T, p *plan) *world {
	t.Helper()
	masters, _ := p.size()
	clk := clocktest.New()
	w := &world{clock: clk, slack: time.Millisecond, look: true}
	all := make(fakeredis.Cluster, masters)
	for i := range all {
		all[i] = fakeredis.New(clk, fakeredis.WithoutCommandLog(), fakeredis.WithUptime(time.Hour))
		t.Cleanup(all[i].Close)
		if i == p.wrong {
			all[i].SetClock(p.clock, 1)
		}
		m := &fakeMaster{Node: all[i], seed: p.seed + uint64(i)}
		m.calm()
		w.masters = append(w.masters, m)
	}
	w.endpoints = all.Endpoints()
	w.connect = all.Dial
	store := fakeredis.New(clk, fakeredis.WithoutCommandLog())
	t.Cleanup(store.Close)
	w.store, w.command = "store:6379", (&fakeMaster{Node: store}).do
	w.dial = []pool.Option{
		pool.WithBackoff(time.Millisecond, 50*time.Millisecond),
		pool.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			if address == w.store {
				return store.Dial(ctx)
			}
			return all.Dial(ctx, network, address)
		}),
	}
	w.options = []redlock.Option{redlock.WithClock(clk), redlock.WithPool(w.dial...)}
	return w
}

// fakeMaster is a node of virtual time.
type fakeMaster struct {
	*fakeredis.Node
	seed uint64
}

// latency is how long a message takes in calm times, at most.
const latency = time.Millisecond

func (m *fakeMaster) calm() { m.DelayBetween(latency/10, latency, m.seed) }

func (m *fakeMaster) get(key string) (string, time.Duration, bool) { return m.Get(key) }
func (m *fakeMaster) keys() []string                               { return m.Keys() }
func (m *fakeMaster) connections() int                             { return m.Connections() }

func (m *fakeMaster) do(name string, args ...any) (any, error) {
	network, err := m.Dial(context.Background())
	if err != nil {
		return nil, err
	}
	conn := redis.NewConn(network, time.Second, time.Second)
	defer conn.Close()
	return conn.Do(name, args...)
}

func (m *fakeMaster) members(key string) []string {
	all, _ := redis.Strings(m.do("ZRANGE", key, 0, -1, "WITHSCORES")) //nolint:errcheck // of another type
	return all
}

// straying is a fault, see docs/safety.md#limits.
const straying = "sends a surplus reply"

// virtualFaults are those of a fakeMaster, by name.
var virtualFaults = map[string]func(m *fakeMaster, much int) (heal func()){
	"slow": func(m *fakeMaster, much int) func() {
		m.DelayBetween(latency/10, time.Duration(much)*3*time.Millisecond, m.seed)
		return m.calm
	},
	"loses requests": func(m *fakeMaster, much int) func() {
		m.LoseRequests(1 + much%2)
		return func() { m.LoseRequests(0) }
	},
	"loses replies": func(m *fakeMaster, much int) func() {
		m.LoseReplies(1 + much%2)
		return func() { m.LoseReplies(0) }
	},
	"cuts after a command": func(m *fakeMaster, much int) func() {
		m.CutAfterWrite(1 + much%5)
		return func() { m.CutAfterWrite(0) }
	},
	"cuts a reply":   func(m *fakeMaster, much int) func() { m.CutReply(much); return func() {} },
	"disconnects":    func(m *fakeMaster, _ int) func() { m.Disconnect(); return func() {} },
	"mute":           func(m *fakeMaster, _ int) func() { m.Mute(true); return func() { m.Mute(false) } },
	"mute replies":   func(m *fakeMaster, _ int) func() { m.MuteReplies(true); return func() { m.MuteReplies(false) } },
	"stopped":        func(m *fakeMaster, _ int) func() { m.Stop(); return m.Continue },
	"killed":         func(m *fakeMaster, _ int) func() { m.Kill(); return func() { m.Restart(true) } },
	"restarts empty": func(m *fakeMaster, _ int) func() { m.Kill(); return func() { m.Restart(false) } },
	"is flushed":     func(m *fakeMaster, _ int) func() { m.FlushAll(); return func() {} },
	"restarts from a snapshot": func(m *fakeMaster, _ int) func() {
		m.Save()
		return func() { m.Kill(); m.RestartFromSnapshot() }
	},
	straying: func(m *fakeMaster, much int) func() {
		m.Inject([]byte(surplus[much%len(surplus)]))
		return func() {}
	},
	"scripts flushed": func(m *fakeMaster, _ int) func() {
		_, _ = m.do("SCRIPT", "FLUSH") //nolint:errcheck // it may be down
		return func() {}
	},
	"a script fails": func(m *fakeMaster, much int) func() {
		m.FailScript(much, failures[much%len(failures)])
		return func() { m.FailScript(0, "") }
	},
	"a script fails midway": func(m *fakeMaster, much int) func() {
		m.FailCall(much, failures[much%len(failures)])
		return func() { m.FailCall(0, "") }
	},
	"forbids messages": func(m *fakeMaster, _ int) func() {
		m.RefuseWith("NOPERM this user has no permissions to run it", "publish", "subscribe")
		return func() { m.RefuseWith("", "publish", "subscribe") }
	},
	"is busy or loads": func(m *fakeMaster, much int) func() {
		m.RefuseWith(pick(rand.New(rand.NewPCG(m.seed, uint64(much))), refusingAll...))
		return func() { m.RefuseWith("") }
	},
	"refuses writes": func(m *fakeMaster, much int) func() {
		m.RefuseWith(failures[much%len(failures)], writes...)
		return func() { m.RefuseWith("", writes...) }
	},
}

// sceneFaults are those that only scenes let begin.
var sceneFaults = map[string]func(m *fakeMaster, much int) (heal func()){
	"forbids INFO": func(m *fakeMaster, _ int) func() {
		m.RefuseWith("NOPERM this user has no permissions to run it", "info")
		return func() { m.RefuseWith("", "info") }
	},
	"forbids its list": func(m *fakeMaster, _ int) func() {
		m.ReplyRaw(func(command []string) []byte {
			if slices.Contains(command, membersKey) {
				return []byte("-NOPERM No permissions to access a key\r\n")
			}
			return nil
		})
		return func() { m.ReplyRaw(nil) }
	},
	"announces a long reply": func(m *fakeMaster, much int) func() {
		m.Inject([]byte(endless[much%len(endless)]))
		return func() {}
	},
}

var (
	// endless are the beginnings of replies that are longer than any that is asked for.
	endless = []string{"$1048577\r\n", "*4097\r\n"}

	// surplus are replies that nobody asked for. None of them is a grant: one of the right kind
	// may be believed (docs/safety.md#limits).
	surplus = []string{"*1\r\n$5\r\nstray\r\n", "$-1\r\n", ":0\r\n", "-ERR no\r\n"}

	// failures are what a master answers that cannot write.
	failures = []string{
		"OOM command not allowed when used memory > 'maxmemory'.",
		"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
		"NOREPLICAS Not enough good replicas to write.",
		"READONLY You can't write against a read only replica.",
	}
	writes = []string{"set", "del", "zadd", "zrem", "zpopmin", "pexpire", "pexpireat", "zremrangebyscore"}

	// refusingAll are what a master answers that can do nothing.
	refusingAll = []string{"BUSY Redis is busy running a script.", "LOADING Redis is loading the dataset in memory"}
)

func (m *fakeMaster) breaks(fault string, much int) (heal func()) {
	begin, found := virtualFaults[fault]
	if !found {
		begin = sceneFaults[fault]
	}
	if begin == nil {
		panic(fmt.Sprintf("no fault %q", fault))
	}
	return begin(m, much)
}
