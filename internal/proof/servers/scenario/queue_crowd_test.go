//go:build linux

package scenario_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/fence"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/queue"
	"github.com/redquorum/redquorum/redlock"
)

// delivery is one line of output of a worker.
type delivery struct {
	process *process
	number  int64 // of the worker in Pop, and the time in Run, in milliseconds
	tasks   []queue.Task
}

// readDelivery reads a line about tasks.
func readDelivery(t *testing.T, p *process, line string) (d delivery, ok bool) {
	t.Helper()
	words := strings.Fields(line)
	if words[0] != "popped" && words[0] != "doubt" {
		return d, false
	}
	number, err := strconv.ParseInt(words[1], 10, 64)
	require.NoError(t, err, line)
	d.process, d.number = p, number
	for _, word := range words[2:] { // behind the number
		id, text, _ := strings.Cut(word, "=")
		score, err := strconv.ParseFloat(text, 64)
		require.NoError(t, err, line)
		d.tasks = append(d.tasks, queue.Task{ID: id, Score: score})
	}
	return d, len(d.tasks) > 0
}

// crowd is four processes with four workers each. Some are killed and stopped while tasks are
// enqueued.
type crowd struct {
	enqueued   map[string]bool
	deliveries []delivery
	stale      int
	late       int
	killed     int
	stopped    int
}

// lateErrors are the errors of a worker whose masters or store answered too late.
var lateErrors = []error{redlock.ErrNoQuorum, redlock.ErrLost, redlock.ErrNoValidity, pool.ErrTimeout}

// crowdTasks is how many tasks a crowd gets at least.
const crowdTasks = 500

func runCrowd(t *testing.T, job string) *crowd {
	t.Helper()
	s := startShop(t)
	name := cluster.LockName(t)
	q := s.queue(t, name)
	rng := rand.New(rand.NewPCG(seedOf(t), 1))
	harms := sizeOf(t, 8, 200)
	c := &crowd{enqueued: map[string]bool{}}
	var live, all []*process
	start := func() {
		p := startWorker(t, s, name, job, "")
		live, all = append(live, p), append(all, p)
	}
	for range 4 {
		start()
	}
	enqueue := func() {
		var ids []string
		for range 1 + rng.IntN(20) {
			id := strconv.Itoa(len(c.enqueued))
			c.enqueued[id] = true
			ids = append(ids, id)
		}
		require.NoError(t, q.Enqueue(t.Context(), ids, time.Duration(rng.IntN(200))*time.Millisecond))
	}
	for n := range harms {
		enough := (n + 1) * crowdTasks / harms // also on a busy machine
		for until := time.Now().Add(time.Duration(100+rng.IntN(300)) * time.Millisecond); time.Now().Before(until) || len(c.enqueued) < enough; {
			enqueue()
			time.Sleep(upTo(rng, 10*time.Millisecond))
		}
		victim := rng.IntN(len(live))
		if n%4 != 3 {
			live[victim].signal(syscall.SIGKILL)
			live = slices.Delete(live, victim, victim+1)
			c.killed++
			start()
			continue
		}
		live[victim].signal(syscall.SIGSTOP)
		time.Sleep(workerTTL + workerTTL/4)
		live[victim].signal(syscall.SIGCONT)
		c.stopped++
	}
	cluster.Eventually(t, 30*time.Second, func() string {
		if left := len(s.entries(t, name)); left > 0 {
			return fmt.Sprint(left, " tasks are left")
		}
		return ""
	})
	for _, p := range live {
		p.goOn()
	}
	for _, p := range all {
		c.read(t, p)
	}
	return c
}

// read collects everything that a process has printed.
func (c *crowd) read(t *testing.T, p *process) {
	t.Helper()
	for line := range p.lines {
		if d, ok := readDelivery(t, p, line); ok {
			c.deliveries = append(c.deliveries, d)
		}
		if strings.HasPrefix(line, "error") {
			switch { // a busy machine stops and delays workers, too
			case strings.Contains(line, fence.ErrStale.Error()):
				c.stale++
			case slices.ContainsFunc(lateErrors, func(err error) bool { return strings.Contains(line, err.Error()) }):
				c.late++
			default:
				assert.True(t, p.harmed, line)
			}
		}
	}
}

// Exactly one of 16 workers in 4 processes gets each due task, oldest first, even if workers are
// killed at any moment and stopped beyond their TTL. A worker that dies in the instant after the
// store has removed them may take the tasks of one Pop with it (see Queue.Pop).
func TestQueuePopDeliversOnce(t *testing.T) {
	if os.Getenv(workerJob) != "" {
		runWorker(t)
		return
	}
	t.Parallel()
	c := runCrowd(t, "pop")
	times := map[string]int{}
	for _, d := range c.deliveries {
		for _, task := range d.tasks {
			times[task.ID]++
		}
	}
	lost := 0
	for id := range c.enqueued {
		assert.LessOrEqual(t, times[id], 1, "task %s", id)
		if times[id] == 0 {
			lost++
		}
	}
	t.Logf("%d tasks, %d killed, %d stopped, %d refused as stale, %d too late, %d tasks died with their worker",
		len(c.enqueued), c.killed, c.stopped, c.stale, c.late, lost)
	assert.LessOrEqual(t, lost, c.killed*workerBatch)

	// Oldest first, over all workers: what one Pop returned does not overlap with what another did.
	slices.SortFunc(c.deliveries, func(a, b delivery) int { return compareTasks(a.tasks[0], b.tasks[0]) })
	for i, d := range c.deliveries {
		assert.True(t, slices.IsSortedFunc(d.tasks, compareTasks), "%v", d.tasks)
		if i > 0 {
			before := c.deliveries[i-1].tasks
			assert.Negative(t, compareTasks(before[len(before)-1], d.tasks[0]), "%v and %v", before, d.tasks)
		}
	}
}

// Run loses no task with its workers. A task runs again only if its worker was killed or stopped,
// or the machine was so busy that the lease of the task ended before the store knew that it was
// done.
func TestQueueRunLosesNothing(t *testing.T) {
	if os.Getenv(workerJob) != "" {
		runWorker(t)
		return
	}
	t.Parallel()
	c := runCrowd(t, "run")
	by := map[string][]delivery{}
	for _, d := range c.deliveries {
		by[d.tasks[0].ID] = append(by[d.tasks[0].ID], d)
	}
	again := 0
	for id := range c.enqueued {
		assert.NotEmpty(t, by[id], "task %s is lost", id)
		if len(by[id]) > 1 {
			again++
			harmed := slices.ContainsFunc(by[id], func(d delivery) bool { return d.process.harmed })
			assert.True(t, harmed || leasesEnded(by[id]), "task %s was run %d times: %+v", id, len(by[id]), by[id])
		}
	}
	t.Logf("%d tasks, %d killed, %d stopped, %d tasks run again", len(c.enqueued), c.killed, c.stopped, again)
}

// leasesEnded reports whether leases can have ended between the runs of a task. A run may begin
// late in its lease.
func leasesEnded(runs []delivery) bool {
	slices.SortFunc(runs, func(a, b delivery) int { return cmp.Compare(a.number, b.number) })
	for i, run := range runs[1:] {
		if run.number-runs[i].number < workerLease.Milliseconds()/2 {
			return false
		}
	}
	return true
}

func compareTasks(a, b queue.Task) int {
	return cmp.Or(cmp.Compare(a.Score, b.Score), cmp.Compare(a.ID, b.ID))
}
