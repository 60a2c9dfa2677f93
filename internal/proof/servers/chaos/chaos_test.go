//go:build linux

package chaos

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof"
	"github.com/redquorum/redquorum/internal/proof/history"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/redlock"
)

const (
	lengthVariable = "REDQUORUM_CHAOS"
	seedVariable   = "REDQUORUM_SEED"

	// shortRun is how long an ordinary `go test` runs, and longRun how long it takes for every
	// fault to happen.
	shortRun = 3 * time.Second
	longRun  = time.Minute

	clientCount = 4 // that use the library, beside one that is foreign
)

// TestMain makes this program a client if it is told so.
func TestMain(m *testing.M) {
	if text := os.Getenv(clientVariable); text != "" {
		if err := runClient(text); err != nil {
			fmt.Fprintln(os.Stderr, "chaos client:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	cluster.Main(m)
}

func lengthOf(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv(lengthVariable)
	if text == "" {
		return shortRun
	}
	length, err := time.ParseDuration(text)
	require.NoError(t, err)
	return length
}

func seedOf(t *testing.T) uint64 {
	t.Helper()
	seed := rand.Uint64()
	if text := os.Getenv(seedVariable); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("%s=%d", seedVariable, seed)
	return seed
}

// Whatever happens to the servers, the network and other processes, within the assumptions: locks
// exclude each other, tokens grow, and each task is delivered once.
func TestChaos(t *testing.T) {
	length, seed := lengthOf(t), seedOf(t)
	ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	a := newArena(t, seed)
	t.Cleanup(a.killAll)
	a.began = now()
	for i := range clientCount + 1 {
		require.NoError(t, a.start(i == clientCount))
	}
	a.awaitClients(t)
	run, over := context.WithTimeout(ctx, length)
	defer over()
	a.deal(run)
	require.NoError(t, ctx.Err(), "interrupted")
	pause(ctx, time.Second) // all of them work again
	a.end(30 * time.Second)

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
	cluster.RequireUp(t, locker, func(n redlock.NodeStats) bool { return n.Barred == nil })
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
	p := &process{id: len(a.all) + 1, file: filepath.Join(a.dir, "drain")}
	journal, err := newJournal(p.file)
	require.NoError(t, err)
	locker, err := newLocker(a.urls())
	require.NoError(t, err)
	defer locker.Close()
	start, over := context.WithTimeout(t.Context(), time.Minute) // a master may never come back
	defer over()
	require.NoError(t, locker.Ready(start))
	c := &client{&brief{ID: p.id, Store: a.storeURL}, locker, journal}
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
	return p
}

// verdict reads what the clients have written, and judges it.
func (a *arena) verdict(t *testing.T, length time.Duration, last *process) {
	t.Helper()
	var holds []*hold
	tasks, counts, ends := newTasks(), map[string]int{}, now()
	for _, p := range append(slices.Clone(a.all), last) {
		events, err := readJournal(p.file)
		if !p.killed || !errors.Is(err, fs.ErrNotExist) { // it may have been killed at once
			require.NoError(t, err)
		}
		tasks.add(events)
		for _, e := range events {
			switch {
			case e.Type == oddEvent:
				t.Errorf("%v: client %d: %s", e.At.Sub(a.began), p.id, e.Text)
			case e.Type == gotEvent:
				counts[e.Kind]++
			case (e.Type == pushedEvent || e.Type == poppedEvent) && !e.Doubt:
				counts[e.Type]++ // each takes the lock of its queue
			}
		}
		for _, h := range holdsOf(p.id, events) {
			if h.kind == "handle" && p.stoppedAround(h.got, h.end) {
				continue // a late timer may not have told it that its lease was over
			}
			holds = append(holds, h)
		}
	}
	found := append(judge(holds), tasks.judge(ends)...)
	a.agree(t, holds, tasks.history.History(), found)
	for i, v := range found {
		if i < mostShown {
			t.Error(a.timeline(v, holds))
		}
	}
	faults := map[string]int{}
	if a.clock != "" {
		faults["clock "+a.clock]++
	}
	for _, f := range a.faults {
		faults[f.name]++
	}
	t.Log(table("acquisitions", counts))
	t.Log(table("faults", faults))
	acquisitions := 0
	for _, n := range counts {
		acquisitions += n
	}
	assert.NotZero(t, acquisitions)
	if length >= longRun {
		for _, c := range deck {
			assert.NotZero(t, faults[c.name], c.name)
		}
		for _, u := range uses {
			if u.kind != "push" && u.kind != "pop" {
				assert.NotZero(t, counts[u.kind], u.kind)
			}
		}
	}
	fmt.Println(proof.Line{
		Step: "chaos on real servers", Size: fmt.Sprintf("%d acquisitions in %v, seed %d", acquisitions, length, a.seed),
		Faults: int64(len(a.faults)), Violations: int64(len(found)),
	})
}

// agree has porcupine judge the same, and fails the test if it finds anything else.
func (a *arena) agree(t *testing.T, holds []*hold, queued []history.Event, found []violation) {
	t.Helper()
	illegal, undecided := check(holds)
	assert.Empty(t, undecided, "too hard for porcupine")
	ours := map[string]bool{}
	for _, v := range found {
		ours[v.name] = true
	}
	delete(ours, "queue")
	assert.Len(t, ours, len(illegal), "we find %v, and porcupine %v", ours, illegal)
	for _, name := range illegal {
		assert.True(t, ours[name], "only porcupine finds %s", name)
	}
	switch history.Check(queued, history.Queue) {
	case history.Legal:
	case history.Illegal:
		t.Error("porcupine finds no order for the tasks")
	case history.Undecided:
		t.Error("the tasks are too hard for porcupine")
	}
	assert.NoError(t, writeHistories(holds, queued))
}
