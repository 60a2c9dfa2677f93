//go:build linux

package scenario_test

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/fence"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/queue"
)

// haltingPoints are where a worker stops in Pop, and what happens to the tasks if it dies there.
// Its messages are a look, the query for due tasks (with its fence), and the removal.
var haltingPoints = []struct {
	at      string
	removed bool
	locked  bool // it has the lock, or had it
}{
	{"before 1", false, false},
	{"after 1", false, false},
	{"before 2", false, true},
	{"after 2", false, true},
	{"before 3", false, true},
	{"after 3", true, true},
}

var haltingTasks = []string{"a", "b", "c"}

// A worker that dies in Pop takes tasks with it only if the store has removed them. Then nobody
// else gets them; otherwise the others get all of them.
func TestQueueWorkerIsKilledInPop(t *testing.T) {
	if os.Getenv(workerJob) != "" {
		runWorker(t)
		return
	}
	t.Parallel()
	s := startShop(t)
	for _, point := range haltingPoints {
		t.Run(point.at, func(t *testing.T) {
			t.Parallel()
			name := cluster.LockName(t)
			q := s.queue(t, name)
			require.NoError(t, q.Enqueue(t.Context(), haltingTasks, 0))
			worker := startWorker(t, s, name, "once", point.at)
			require.Equal(t, "at "+point.at, worker.next())
			worker.signal(syscall.SIGKILL)
			_, open := <-worker.lines
			require.False(t, open, "it has said nothing more")
			// It waits for the lock of the dead worker.
			require.NoError(t, q.Enqueue(t.Context(), []string{"d"}, 0))
			tasks, err := q.Pop(t.Context(), 10)
			require.NoError(t, err)
			want := []string{"a", "b", "c", "d"}
			if point.removed {
				want = want[3:]
			}
			assert.Equal(t, want, taskIDs(tasks))
		})
	}
}

// A worker was stopped in Pop beyond its TTL, and continues when others have popped. Either it gets
// ErrStale and changes nothing, or it has the tasks and the others do not.
func TestQueueWorkerIsStoppedInPop(t *testing.T) {
	if os.Getenv(workerJob) != "" {
		runWorker(t)
		return
	}
	t.Parallel()
	s := startShop(t)
	for _, point := range haltingPoints {
		t.Run(point.at, func(t *testing.T) {
			t.Parallel()
			name := cluster.LockName(t)
			q := s.queue(t, name)
			require.NoError(t, q.Enqueue(t.Context(), haltingTasks, 0))
			worker := startWorker(t, s, name, "once", point.at)
			require.Equal(t, "at "+point.at, worker.next())
			worker.signal(syscall.SIGSTOP)
			tasks, err := q.Pop(t.Context(), 10)
			require.NoError(t, err)
			require.NoError(t, q.Enqueue(t.Context(), []string{"later"}, time.Hour))
			before := s.content(t, name)
			worker.goOn()
			worker.signal(syscall.SIGCONT)
			said := worker.next()
			switch {
			case point.removed:
				assert.Empty(t, tasks)
				assert.Regexp(t, `^popped 0 a=\S+ b=\S+ c=\S+$`, said)
			case point.locked:
				assert.Equal(t, haltingTasks, taskIDs(tasks))
				assert.Contains(t, said, fence.ErrStale.Error())
				assert.Equal(t, "doubt 0", worker.next())
			default: // it has the lock now, after the others, and finds nothing
				assert.Equal(t, haltingTasks, taskIDs(tasks))
				assert.Equal(t, "popped 0", said)
			}
			assert.Equal(t, "end", worker.next())
			if point.locked {
				assert.Equal(t, before, s.content(t, name), "a stale worker has changed something")
			}
		})
	}
}

// content returns everything that the store has of a queue.
func (s *shop) content(t *testing.T, name string) map[string]string {
	t.Helper()
	content := map[string]string{}
	for id, score := range s.entries(t, name) {
		content[id] = fmt.Sprintf("%.6f", score)
	}
	for _, key := range []string{"redquorum:queue:fence:", "redquorum:queue:last:"} {
		value, err := redis.String(s.store.Do("GET", key+name))
		require.NoError(t, err)
		content[key] = value
	}
	return content
}

func taskIDs(tasks []queue.Task) (ids []string) {
	for _, task := range tasks {
		ids = append(ids, task.ID)
	}
	return ids
}
