package versus

import (
	"errors"
	"testing"
	"time"

	"github.com/redquorum/redquorum/bench/versus/figures"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

// recoveryBench is five servers. The last two are behind proxies.
type recoveryBench struct {
	servers   []*redistest.Server
	addresses []string
	mute      *redistest.Proxy
	late      *redistest.Proxy
}

func startRecovery(t *testing.T) *recoveryBench {
	t.Helper()
	b := &recoveryBench{servers: startServers(t)}
	b.addresses = addressesOf(b.servers)
	b.mute, b.late = redistest.NewProxy(t, b.addresses[3]), redistest.NewProxy(t, b.addresses[4])
	b.addresses[3], b.addresses[4] = b.mute.Addr(), b.late.Addr()
	return b
}

// recoveryCourse is what happens, and for how long. Servers that were killed come back empty. After
// that redquorum counts none of their votes for recoveryMaxTTL.
var recoveryCourse = []struct {
	title   string
	seconds float64
	begin   func(b *recoveryBench) error
}{
	{figures.Calm, 8, nil},
	{"one killed", 7, func(b *recoveryBench) error { return b.kill(1) }},
	{"two killed", 7, func(b *recoveryBench) error { return b.kill(2) }},
	{"both back, empty", 12, func(b *recoveryBench) error { return b.restart(2) }},
	{figures.Calm, 4, nil},
	{"one stopped", 6, func(b *recoveryBench) error { return b.servers[2].Stop() }},
	{figures.Calm, 4, func(b *recoveryBench) error { return b.servers[2].Continue() }},
	{"one mute", 6, func(b *recoveryBench) error { b.mute.Hold(redistest.Both, true); return nil }},
	{figures.Calm, 4, func(b *recoveryBench) error { b.mute.Heal(); return nil }},
	{"one 200 ms late", 6, func(b *recoveryBench) error { b.late.Delay(redistest.Both, lateness, 0); return nil }},
	{figures.Calm, 4, func(b *recoveryBench) error { b.late.Heal(); return nil }},
	{"three killed", 6, func(b *recoveryBench) error { return b.kill(3) }},
	{"three back, empty", 12, func(b *recoveryBench) error { return b.restart(3) }},
	{figures.Calm, 4, nil},
}

func (b *recoveryBench) kill(servers int) error {
	var errs []error
	for _, server := range b.servers[:servers] {
		errs = append(errs, server.Kill())
	}
	return errors.Join(errs...)
}

func (b *recoveryBench) restart(servers int) error {
	var errs []error
	for _, server := range b.servers[:servers] {
		errs = append(errs, server.Restart())
	}
	return errors.Join(errs...)
}

// course begins each phase at its time, and returns at the end of the last.
func (b *recoveryBench) course(t *testing.T, start time.Time, second time.Duration) {
	t.Helper()
	at := start
	for _, phase := range recoveryCourse {
		time.Sleep(time.Until(at))
		if phase.begin != nil {
			if err := phase.begin(b); err != nil {
				t.Fatal(err)
			}
		}
		at = at.Add(time.Duration(phase.seconds * float64(second)))
	}
	time.Sleep(time.Until(at))
}
