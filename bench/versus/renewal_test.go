package versus

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/bench/contention"
	"github.com/redquorum/redquorum/bench/load"
	"github.com/redquorum/redquorum/bench/versus/figures"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/redlock"
)

// holding is what it took to hold locks for a while.
type holding struct {
	held, cpu, servers time.Duration
	renewals           uint64
	lost               uint64
	heap               float64 // bytes per lock, names included
	goroutines         int     // of the library
}

// renewalValues are what holdings have, by name.
var renewalValues = map[string]struct {
	of    func(*holding) float64
	known bool
}{
	figures.CoreShare:           {func(h *holding) float64 { return 100 * h.cpu.Seconds() / h.held.Seconds() }, load.CPUKnown},
	figures.RenewalsPerSecond:   {func(h *holding) float64 { return float64(h.renewals) / h.held.Seconds() }, true},
	figures.ClientCPUPerRenewal: {func(h *holding) float64 { return load.Micros(h.cpu) / float64(h.renewals) }, load.CPUKnown},
	figures.ServerCPUPerRenewal: {func(h *holding) float64 { return load.Micros(h.servers) / float64(h.renewals) }, serverCPUKnown},
	figures.LostLocks:           {func(h *holding) float64 { return float64(h.lost) }, true},
}

// measureRenewal is about this library alone: redsync and redislock leave renewal to their caller.
func measureRenewal(t *testing.T, p *plan) figures.Experiment {
	t.Helper()
	e := figures.Experiment{Setup: fmt.Sprintf("five servers, a TTL of %v, samples of %v", p.ttl, p.hold)}
	servers := startServers(t)
	rounds := make([][]holding, len(p.locks))
	for range p.longRounds {
		for i, locks := range p.locks {
			h, err := hold(t.Context(), servers, locks, p)
			require.NoError(t, err)
			rounds[i] = append(rounds[i], h)
			t.Logf("%d locks: %.0f bytes of heap for each, and at most %d goroutines", locks, h.heap, h.goroutines)
		}
	}
	for i, locks := range p.locks {
		row := figures.Row{Peer: "redquorum", Size: locks, Values: make(map[string]figures.Figure)}
		for name, value := range renewalValues {
			if value.known {
				addFigure(&row, name, rounds[i], value.of)
			}
		}
		e.Rows = append(e.Rows, row)
	}
	return e
}

// leadIn is which part of a sample passes before it begins.
const leadIn = 10

// hold acquires so many locks, holds them for a while, and releases them.
func hold(ctx context.Context, servers []*redistest.Server, locks int, p *plan) (h holding, err error) {
	goroutines := runtime.NumGoroutine()
	locker, err := newLocker(contention.AddressesOf(servers), redlock.WithTTL(p.ttl))
	if err != nil {
		return h, err
	}
	defer func() { err = errors.Join(err, release(locker.Locker, servers)) }()
	heap := load.LiveHeap()
	acquire := load.Load{Goroutines: min(locks, manyGoroutines), Limit: locks, Do: func(ctx context.Context, i, _ int) error {
		_, err := locker.Locker.Lock(ctx, fmt.Sprintf("versus/hold/%06d", i))
		return err
	}}
	if _, err := acquire.Measure(ctx); err != nil {
		return h, err
	}
	h.heap = (load.LiveHeap() - heap) / float64(locks)
	// Renewals are due an interval after the locks were acquired, right when a sample that began at
	// once would end.
	time.Sleep(p.hold / leadIn)
	serversBefore, err := serverCPU(servers)
	if err != nil {
		return h, err
	}
	before, cpu, start := locker.Stats(), load.CPUTime(), time.Now()
	for time.Since(start) < p.hold {
		time.Sleep(min(load.GoroutineSample, p.hold))
		h.goroutines = max(h.goroutines, runtime.NumGoroutine()-goroutines)
	}
	h.held, h.cpu = time.Since(start), load.CPUTime()-cpu
	after := locker.Stats()
	h.renewals, h.lost = after.Renewed-before.Renewed, after.Lost
	if after.Held+int(after.Lost) != locks {
		return h, fmt.Errorf("%d locks held and %d lost of %d", after.Held, after.Lost, locks)
	}
	serversAfter, err := serverCPU(servers)
	h.servers = serversAfter - serversBefore
	return h, err
}

// release closes the Locker, which releases its locks. On a busy machine, some releases are not
// delivered in time: no key may wait for its expiry when the next round begins.
func release(locker *redlock.Locker, servers []*redistest.Server) error {
	if locker.Close() == nil {
		return nil
	}
	var errs []error
	for _, server := range servers {
		errs = append(errs, server.Clear())
	}
	return errors.Join(errs...)
}
