package scenario_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/child"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/internal/proof/virtual"
	"github.com/redquorum/redquorum/queue"
	"github.com/redquorum/redquorum/redlock"
)

const (
	taskAttempts = 4
	poisonEvery  = 50 // of so many tasks one always panics
)

func isPoison(id string) bool {
	n, err := strconv.Atoi(id)
	return err == nil && n%poisonEvery == 0
}

// playWorker runs tasks until it is killed, or hears a line. It tells when it begins one, and when
// it has done it. Some handlers fail, and some panic.
func playWorker(self *child.Self) {
	locker, err := redlock.New(self.Args[1:])
	require.NoError(self, err)
	q, err := queue.New(locker, self.Args[0], "many")
	require.NoError(self, err)
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		for range self.Heard() {
			stop()
		}
	}()
	require.NoError(self, q.Run(ctx, func(_ context.Context, task queue.Task) error {
		self.Tell("begins", task.ID, task.Attempt)
		switch luck := rand.IntN(10); {
		case isPoison(task.ID) || luck == 0:
			panic("poison, or bad luck")
		case luck < 3:
			return errors.New("not yet")
		case string(task.Payload) != "of "+task.ID:
			return fmt.Errorf("the payload of %s is %q", task.ID, task.Payload)
		}
		time.Sleep(time.Duration(rand.IntN(5)) * time.Millisecond)
		self.Tell("did", task.ID)
		return nil
	}, queue.WithMaxAttempts(taskAttempts), queue.WithBackoff(time.Millisecond, 50*time.Millisecond), queue.WithLease(2*time.Second),
		queue.WithConcurrency(32), queue.WithFailed(func(*queue.TaskError) {})))
	require.NoError(self, q.Close())
	require.NoError(self, locker.Close())
}

// toll is what workers told.
type toll struct {
	mu     sync.Mutex
	begun  map[string]int // by id and attempt
	did    map[string]bool
	killed int
}

func (t *toll) hear(lines <-chan string) {
	for line := range lines {
		did, what, _ := strings.Cut(line, " ")
		t.mu.Lock()
		if did == "begins" {
			t.begun[what]++
		} else {
			t.did[what] = true
		}
		t.mu.Unlock()
	}
}

// Each of many tasks is done, or dead with its errors, though workers are killed and the store
// restarts with its data. None has an attempt twice, or too many.
func TestEachTaskEndsThoughWorkersAreKilledAndTheStoreRestarts(t *testing.T) {
	t.Parallel()
	count, rounds := 300, 3
	if virtual.Soaks() {
		count, rounds = 10000, 10
	}
	c := cluster.Start(t, 3)
	store := redistest.StartOne(t, redistest.WithArgs("--appendonly", "yes", "--appendfsync", "always"))
	q, err := queue.New(cluster.NewConnected(t, c.URLs()), store.URL(), "many", queue.WithTimeout(aMinute))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, q.Close()) })

	told := toll{begun: map[string]int{}, did: map[string]bool{}}
	var hearing sync.WaitGroup
	start := func() *child.Process {
		worker := child.Start(t, child.Command("worker", append([]string{store.URL()}, c.URLs()...)...))
		hearing.Go(func() { told.hear(worker.Lines()) })
		return worker
	}
	workers := []*child.Process{start(), start(), start()}
	var items []queue.Item
	for i := range count {
		items = append(items, queue.Item{ID: strconv.Itoa(i), Payload: fmt.Append(nil, "of ", i)})
	}
	added := 0
	for some := range slices.Chunk(items, (count+rounds-1)/rounds) {
		require.NoError(t, q.Add(t.Context(), some, 0))
		added += len(some)
		cluster.Eventually(t, aMinute, func() string { // they are at work
			told.mu.Lock()
			defer told.mu.Unlock()
			if len(told.did) < added/4 {
				return fmt.Sprintf("%d of %d are done", len(told.did), added)
			}
			return ""
		})
		i := rand.IntN(len(workers))
		require.NoError(t, workers[i].Kill())
		told.killed++
		workers[i] = start()
		if added > count/2 && added-len(some) <= count/2 {
			require.NoError(t, store.Kill())
			require.NoError(t, store.Restart())
		}
	}
	cluster.Eventually(t, 2*aMinute, func() string {
		counts, err := q.Count(t.Context())
		if err != nil || counts.Waiting+counts.Due+counts.Running > 0 {
			return fmt.Sprintf("%+v, %v", counts, err)
		}
		return ""
	})
	for _, worker := range workers {
		require.NoError(t, worker.Tell("end"))
		assert.Zero(t, worker.Wait(t))
	}
	hearing.Wait()
	judgeTasks(t, q, &told, count)
}

func judgeTasks(t *testing.T, q *queue.Queue, told *toll, count int) {
	t.Helper()
	counts, err := q.Count(t.Context())
	require.NoError(t, err)
	dead := map[string]bool{}
	for { // page by page
		letters, err := q.Dead(t.Context(), 2000)
		require.NoError(t, err)
		if len(letters) == 0 {
			break
		}
		var ids []string
		for i := range letters {
			letter := &letters[i]
			ids = append(ids, letter.ID)
			dead[letter.ID] = true
			assert.Equal(t, taskAttempts, letter.Attempts, letter.ID)
			assert.NotEmpty(t, letter.Errors, letter.ID)
			assert.Equal(t, "of "+letter.ID, string(letter.Payload))
		}
		n, err := q.Drop(t.Context(), ids...)
		require.NoError(t, err)
		assert.Len(t, ids, n)
	}
	assert.Equal(t, queue.Counts{Dead: len(dead)}, counts)
	for i := range count {
		id := strconv.Itoa(i)
		assert.True(t, told.did[id] || dead[id], "task %s is neither done nor dead", id)
		assert.True(t, !isPoison(id) || dead[id], "poison %s", id)
		for attempt := 1; attempt <= taskAttempts; attempt++ {
			what := fmt.Sprint(id, " ", attempt)
			assert.LessOrEqual(t, told.begun[what], 1, "attempt %s", what)
			delete(told.begun, what)
		}
	}
	assert.Empty(t, told.begun, "no other attempt")
	t.Logf("%d tasks, %d done, %d dead, %d workers killed", count, len(told.did), len(dead), told.killed)
}
