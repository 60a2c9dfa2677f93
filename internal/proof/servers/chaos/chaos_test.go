//go:build linux

package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/history"
	"github.com/redquorum/redquorum/internal/proof/servers/child"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/redlock"
)

const (
	lengthVariable = "REDQUORUM_CHAOS"

	// shortRun is how long an ordinary `go test` runs, and longRun how long it takes for every
	// fault to happen.
	shortRun = 3 * time.Second
	longRun  = time.Minute

	clientCount = 4 // that use the library, beside one that is foreign
)

func TestMain(m *testing.M) {
	child.Play(map[string]child.Role{"client": runClient})
	cluster.Main(m)
}

// Whatever happens to the servers, the network and other processes, within the assumptions: locks
// exclude each other, tokens grow, and each task is delivered once.
func TestChaos(t *testing.T) {
	length := history.Length(t, lengthVariable, shortRun)
	seed, _ := history.Seed(t)
	t.Logf("REDQUORUM_SEED=%d", seed)
	ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	a := newArena(t, seed)
	members := a.newOperators()
	a.began = now()
	for i := range clientCount + 1 {
		a.start(i == clientCount)
	}
	a.awaitClients(t)
	run, over := context.WithTimeout(ctx, length)
	defer over()
	changes := make(chan struct{})
	go func() {
		defer close(changes)
		members.work(run)
	}()
	a.deal(run)
	<-changes
	require.NoError(t, ctx.Err(), "interrupted")
	pause(ctx, time.Second) // all of them work again
	a.end()

	a.checkHealed(t)
	a.verdict(t, length, a.drain(t))
}

// awaitClients waits until all clients have something to tell.
func (a *arena) awaitClients(t *testing.T) {
	t.Helper()
	cluster.Eventually(t, time.Minute, func() string {
		for _, p := range a.all {
			if info, err := os.Stat(p.file); err != nil || info.Size() == 0 {
				return fmt.Sprintf("client %d has begun", p.id)
			}
		}
		return ""
	})
}

// checkHealed requires that every name can be locked soon, and that no lock is left behind.
func (a *arena) checkHealed(t *testing.T) {
	t.Helper()
	locker, err := newLocker(a.urls())
	require.NoError(t, err)
	defer locker.Close()
	defer a.tellState(t)
	cluster.RequireUp(t, locker, func(n redlock.NodeStats) bool {
		return n.Barred == nil || errors.Is(n.Barred, redlock.ErrNotMember) // the spare master
	})
	names := slices.Concat(mutexes, shared, long, []string{"leader", popped, handled})
	for n := 2; n <= 4; n++ {
		for slot := range n {
			names = append(names, fmt.Sprintf("permit%d#%d", n, slot+1))
		}
	}
	for _, name := range names {
		ctx, cancel := context.WithTimeout(t.Context(), ttl+time.Second)
		lock, err := locker.Lock(ctx, name)
		cancel()
		if assert.NoError(t, err, "%s after everything is over", name) {
			if err := lock.Unlock(t.Context()); !errors.Is(err, redlock.ErrNoQuorum) { // in time
				assert.NoError(t, err, name)
			}
		}
	}
	cluster.Eventually(t, maxTTL+time.Second, func() (left string) {
		for _, n := range a.nodes {
			keys, err := n.server.Keys()
			keys = slices.DeleteFunc(keys, func(key string) bool {
				return key == voterKey || strings.HasPrefix(key, "redquorum:")
			})
			if err != nil || len(keys) > 0 {
				left += fmt.Sprintf("master %d: %v %q\n", n.index, err, keys)
			}
		}
		return left
	})
}

// drain is the last client: it pops and handles what is left.
func (a *arena) drain(t *testing.T) *process {
	t.Helper()
	id, file := len(a.all)+1, filepath.Join(a.dir, "drain")
	journal, err := newJournal(file)
	require.NoError(t, err)
	locker, err := newLocker(a.urls())
	require.NoError(t, err)
	defer locker.Close()
	start, over := context.WithTimeout(t.Context(), time.Minute) // a master may never come back
	defer over()
	require.NoError(t, locker.Ready(start))
	c := &client{brief{ID: id, Store: a.storeURL}, journal, locker}
	q := c.queue(popped)
	defer q.Close()
	for c.popOnce(t.Context(), q) > 0 {
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		handle(ctx, c, nil)
	}()
	left := c.queue(handled)
	defer left.Close()
	cluster.Eventually(t, 3*lease, func() string {
		if n, err := left.Len(ctx); err != nil || n > 0 {
			return fmt.Sprintf("%d tasks are left: %v", n, err)
		}
		return ""
	})
	cancel()
	<-done
	return &process{id: id, file: file}
}

// tellState logs what the masters of a failed run say of their cluster.
func (a *arena) tellState(t *testing.T) {
	if !t.Failed() {
		return
	}
	for _, n := range a.nodes {
		marker, _ := n.server.Do("GET", "redquorum:memory")   //nolint:errcheck // shown as it is
		members, _ := n.server.Do("GET", "redquorum:members") //nolint:errcheck // shown as it is
		t.Logf("%s\n%s\n%s", n.server.URL(), marker, members)
	}
}
