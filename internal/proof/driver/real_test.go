package driver_test

import (
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/proof/history"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// realSlack is what a busy machine may add to the bound of a call. What must not be late at all is
// judged in virtual time.
const realSlack = 2 * time.Second

// real returns a world of redis-servers that keep what they acknowledge.
func real(t *testing.T, p *plan) *world {
	t.Helper()
	masters, _ := p.size()
	w := &world{clock: clock.System(), slack: realSlack}
	for _, server := range redistest.Start(t, masters, redistest.WithArgs("--appendonly", "yes", "--appendfsync", "always")) {
		proxy := redistest.NewProxy(t, server.Addr())
		w.masters = append(w.masters, &realMaster{server, proxy})
		w.endpoints = append(w.endpoints, proxy.URL())
	}
	store := redistest.StartOne(t)
	w.store, w.command = store.URL(), store.Do
	w.dial = []pool.Option{pool.WithBackoff(time.Millisecond, 50*time.Millisecond)}
	w.options = []redlock.Option{redlock.WithPool(w.dial...)}
	return w
}

// realMaster is a redis-server behind a proxy.
type realMaster struct {
	*redistest.Server
	proxy *redistest.Proxy
}

func (m *realMaster) do(name string, args ...any) (any, error) { return m.Do(name, args...) }
func (m *realMaster) connections() int                         { return m.proxy.Connections() }

func (m *realMaster) keys() []string {
	all, _ := m.Keys() //nolint:errcheck // it is up when anybody asks
	return all
}

func (m *realMaster) get(key string) (value string, ttl time.Duration, found bool) {
	value, err := redis.String(m.Do("GET", key))
	if err != nil && !strings.HasPrefix(err.Error(), "WRONGTYPE") {
		return "", 0, !errors.Is(err, redis.ErrNil)
	}
	left, _ := redis.Int64(m.Do("PTTL", key)) //nolint:errcheck // it is up
	return value, time.Duration(left) * time.Millisecond, true
}

func (m *realMaster) members(key string) []string {
	all, _ := redis.Strings(m.Do("ZRANGE", key, 0, -1, "WITHSCORES")) //nolint:errcheck // of another type
	return all
}

// realFaults are those of a realMaster, by name.
var realFaults = map[string]func(m *realMaster, much int) (heal func()){
	"slow": func(m *realMaster, much int) func() {
		m.proxy.Delay(redistest.Replies, time.Duration(much)*3*time.Millisecond, 0)
		return func() { m.proxy.Delay(redistest.Replies, 0, 0) }
	},
	"mute requests": func(m *realMaster, _ int) func() {
		m.proxy.Hold(redistest.Requests, true)
		return func() { m.proxy.Hold(redistest.Requests, false) }
	},
	"mute replies": func(m *realMaster, _ int) func() {
		m.proxy.Drop(redistest.Replies, true)
		return func() { m.proxy.Drop(redistest.Replies, false) }
	},
	"cuts a reply":         func(m *realMaster, much int) func() { m.proxy.CutReplies(much); return m.proxy.Heal },
	"cuts after a request": func(m *realMaster, _ int) func() { m.proxy.CutAfterRequest(); return m.proxy.Heal },
	"disconnects":          func(m *realMaster, _ int) func() { m.proxy.Reset(); return func() {} },
	"stopped": func(m *realMaster, _ int) func() {
		_ = m.Stop()                       //nolint:errcheck // it may be dead
		return func() { _ = m.Continue() } //nolint:errcheck // as above
	},
	"scripts flushed": func(m *realMaster, _ int) func() {
		_, _ = m.Do("SCRIPT", "FLUSH") //nolint:errcheck // it may be down
		return func() {}
	},
	"forbids messages": func(m *realMaster, _ int) func() {
		_, _ = m.Do("ACL", "SETUSER", "default", "-publish", "-subscribe")                   //nolint:errcheck // it may be down
		return func() { _, _ = m.Do("ACL", "SETUSER", "default", "+publish", "+subscribe") } //nolint:errcheck // as above
	},
}

func (m *realMaster) breaks(fault string, much int) (heal func()) { return realFaults[fault](m, much) }

// The same histories on real servers: what is judged there is what virtual time cannot show, that
// servers and the network are as the fake nodes say.
func TestHistoriesOnServers(t *testing.T) {
	redistest.Require(t)
	t.Parallel()
	base, _ := history.Seed(t)
	count := uint64(3)
	switch {
	case os.Getenv("REDQUORUM_SOAK") == "1":
		count = 300
	case thorough():
		count = 8
	}
	for i := range count {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			p := newPlan(base+i, slices.Sorted(maps.Keys(realFaults)))
			r := newRun(t, p, real(t, p))
			r.play()
			if len(r.wrong) > 0 {
				t.Error(r.report())
			}
			looked(t, r.checked, false)
		})
	}
}
