//go:build linux

package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/proof/servers/child"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/redlock"
)

const (
	nodeCount = 5
	minority  = nodeCount / 2

	// sideCount is how many groups of clients there are. Each has proxies of its own, so the
	// network can be different for them.
	sideCount = 2
)

// node is one of the masters.
type node struct {
	index   int
	server  *redistest.Server
	durable bool // its memory survives a restart
	wrong   bool // its clock
	proxies [sideCount]*redistest.Proxy
	faulty  [sideCount]bool // guarded by arena.mu
	pids    []int           // of its processes that were killed; written by the fault that has it
}

// arena is the servers, the clients and what was done to them.
type arena struct {
	t        *testing.T
	dir      string
	seed     uint64
	began    clock.Instant
	nodes    []*node
	store    *redistest.Proxy
	storeURL string // past the proxy
	clock    string // what is wrong with the clock of the last master
	deck     []card
	step     string   // of the proof
	kinds    []string // of holds, beside those of all clients, that a long run must have

	mu      sync.Mutex // guards the fields below, and the marked ones of node and process
	faults  []*fault
	clients []*process // those that run
	all     []*process // the same, and those that were killed
}

// process is a client process.
type process struct {
	*child.Process

	id    int
	file  string
	again func() // starts another one of its kind

	// Guarded by arena.mu.
	busy  bool // a fault has it
	stops []*fault
}

const memoryDir = "/dev/shm"

// newArena starts the servers. The first two are durable, and the clock of the last one is wrong.
func newArena(t *testing.T, seed uint64) *arena {
	t.Helper()
	if _, err := os.Stat(memoryDir); err == nil {
		t.Setenv("TMPDIR", memoryDir) // a killed process loses nothing here either
	}
	a := &arena{t: t, dir: t.TempDir(), seed: seed, deck: slices.Clone(deck), step: "chaos on real servers"}
	rng := rand.New(rand.NewPCG(seed, 0))
	durable := redistest.WithArgs("--appendonly", "yes", "--appendfsync", "always", "--aof-load-truncated", "no", "--repl-diskless-sync-delay", "0")
	plain := redistest.WithArgs("--repl-diskless-sync-delay", "0")
	t.Cleanup(a.sweep) // when the servers have ended
	servers := redistest.Start(t, minority, durable)
	servers = append(servers, redistest.Start(t, nodeCount-minority-1, plain)...)
	wrong := []redistest.Option{plain}
	if a.clock = wrongClock(rng); a.clock != "" {
		// Threads that wait for a time by a wrong clock can hang with libfaketime.
		wrong = append(wrong, redistest.WithArgs("--jemalloc-bg-thread", "no"), redistest.WithEnv(redistest.FakeTime(a.clock)...))
	} else {
		t.Log("no libfaketime, or a server that was chosen: the clocks of all masters are right")
	}
	servers = append(servers, redistest.Start(t, 1, wrong...)...)
	for i, server := range servers {
		n := &node{index: i, server: server, durable: i < minority, wrong: i == nodeCount-1 && a.clock != ""}
		for side := range n.proxies {
			n.proxies[side] = redistest.NewProxy(t, server.Addr())
		}
		a.nodes = append(a.nodes, n)
		t.Cleanup(func() { n.pids = append(n.pids, server.Pid()) })
		a.admit(n)
	}
	store := redistest.StartOne(t)
	a.store, a.storeURL = redistest.NewProxy(t, store.Addr()), store.URL()
	locker, err := newLocker(a.urls())
	require.NoError(t, err)
	cluster.RequireUp(t, locker, func(n redlock.NodeStats) bool { return n.Barred == nil })
	require.NoError(t, locker.Close())
	return a
}

// wrongClock chooses an offset for libfaketime, or nothing if it is not there. The rate is within
// the drift that clients allow for. No clock is ahead by up to 30 s: the other masters would follow
// its numbers, which are within 10 s of it, and one that forgets would have to stay away for longer
// than our MaxTTL until its clock has passed them (S16 and its limit, docs/safety.md).
func wrongClock(rng *rand.Rand) string {
	if redistest.FakeTime("+0") == nil || os.Getenv("REDQUORUM_SERVER") != "" {
		return ""
	}
	switch rng.IntN(3) {
	case 0:
		return fmt.Sprintf("+%ds", 35+rng.IntN(26))
	case 1:
		return fmt.Sprintf("-%ds", 1+rng.IntN(60))
	default:
		return fmt.Sprintf("-%ds x1.003", 30+rng.IntN(31))
	}
}

// urls returns the masters, past the proxies.
func (a *arena) urls() (urls []string) {
	for _, n := range a.nodes {
		urls = append(urls, n.server.URL())
	}
	return urls
}

// admit tells foreign clients that the memory of a master counts.
func (a *arena) admit(n *node) {
	_, err := n.server.Do("SET", voterKey, n.index)
	assert.NoError(a.t, err)
}

// free returns a master that the condition allows and that has no fault at a side, if that leaves a
// majority there, and marks it; or nil. Sides is one side or both.
func (a *arena) free(rng *rand.Rand, sides []int, fits func(n *node) bool) *node {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, side := range sides {
		faulty := 0
		for _, n := range a.nodes {
			if n.faulty[side] {
				faulty++
			}
		}
		if faulty >= minority {
			return nil
		}
	}
	for _, i := range rng.Perm(nodeCount) {
		if n := a.nodes[i]; fits(n) && n.soundLocked(sides) {
			n.markLocked(sides, true)
			return n
		}
	}
	return nil
}

func (n *node) soundLocked(sides []int) bool {
	return !slices.ContainsFunc(sides, func(side int) bool { return n.faulty[side] })
}

func (n *node) markLocked(sides []int, faulty bool) {
	for _, side := range sides {
		n.faulty[side] = faulty
	}
}

// release takes the marks of nodes back.
func (a *arena) release(nodes []*node, sides []int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, n := range nodes {
		n.markLocked(sides, false)
	}
}

// sound returns a master without any fault other than n. What one with another clock says about
// the life of keys is of no use to n.
func (a *arena) sound(n *node) *node {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, other := range a.nodes {
		if other != n && !other.wrong && other.soundLocked(bothSides) {
			return other
		}
	}
	return nil
}

// forgot waits until everything has expired that a master may have forgotten, and longer than its
// clients take to notice.
func (a *arena) forgot(ctx context.Context, n *node) {
	pause(ctx, maxTTL+300*time.Millisecond)
	a.admit(n)
	pause(ctx, 500*time.Millisecond)
}

// kill kills the server.
func (n *node) kill() error {
	n.pids = append(n.pids, n.server.Pid())
	return n.server.Kill()
}

// sweep deletes what libfaketime leaves behind where a process was killed.
func (a *arena) sweep() {
	for _, n := range a.nodes {
		for _, pid := range n.pids {
			for _, left := range []string{"faketime_shm_", "sem.faketime_sem_"} {
				err := os.Remove(fmt.Sprint(memoryDir, "/", left, pid))
				assert.True(a.t, err == nil || errors.Is(err, fs.ErrNotExist), "%v", err)
			}
		}
	}
}

// start starts a client. Clients take turns with the sides.
func (a *arena) start(foreign bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	id := len(a.all) + 1
	b := brief{
		ID: id, Foreign: foreign, Store: "redis://" + a.store.Addr(), File: filepath.Join(a.dir, fmt.Sprint("client", id)),
		Seed: a.seed + uint64(id),
	}
	for _, n := range a.nodes {
		b.Nodes = append(b.Nodes, n.proxies[id%sideCount].URL())
	}
	text, err := json.Marshal(b)
	if err != nil {
		panic(err) // strings and numbers only
	}
	command := child.Command("client", string(text))
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt is for the test
	p := &process{Process: child.Start(a.t, command), id: id, file: b.File, again: func() { a.start(foreign) }}
	a.clients, a.all = append(a.clients, p), append(a.all, p)
}

// end lets all clients end by themselves.
func (a *arena) end() {
	for _, p := range a.clients {
		assert.NoError(a.t, p.CloseInput())
	}
	for _, p := range a.clients {
		assert.Zero(a.t, p.Wait(a.t), "client %d", p.id)
	}
}

// victim returns a client that no other fault has.
func (a *arena) victim(rng *rand.Rand) *process {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, i := range rng.Perm(len(a.clients)) {
		if p := a.clients[i]; !p.busy {
			p.busy = true
			return p
		}
	}
	return nil
}

// replace kills a client and starts another one of its kind.
func (a *arena) replace(p *process) error {
	a.mu.Lock()
	a.clients = slices.DeleteFunc(a.clients, func(other *process) bool { return other == p })
	a.mu.Unlock()
	if err := p.Kill(); err != nil {
		return err
	}
	p.again()
	return nil
}

// stoppedAround reports whether a process was stopped or continued near an instant.
func (p *process) stoppedAround(from, to clock.Instant) bool {
	return slices.ContainsFunc(p.stops, func(f *fault) bool { return from < f.to.Add(time.Second) && to > f.from })
}
