package redistest

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMonitorRecordsCommandsInOrder(t *testing.T) {
	t.Parallel()
	server := StartOne(t, WithPassword("secret"))
	monitor := server.Monitor(t)
	mustDo(t, server, "PING") // after an AUTH, which this Redis may or may not show
	monitor.WaitFor(`"PING"`, 1)
	monitor.Clear()
	mustDo(t, server, "SET", "key", "a value")
	mustDo(t, server, "EVAL", "return redis.call('get', KEYS[1])", 1, "key")
	monitor.WaitFor(`lua] "get" "key"`, 1)
	lines := monitor.Lines()
	require.Len(t, lines, 3)
	assert.Contains(t, lines[0], `"SET" "key" "a value"`)
	assert.Contains(t, lines[1], `"EVAL"`)
	assert.Equal(t, lines[:1], monitor.Matching(`"SET"`))
}

func TestMonitorWaitsForAsManyLinesAsAsked(t *testing.T) {
	t.Parallel()
	server := StartOne(t)
	monitor := server.Monitor(t)
	var writer sync.WaitGroup
	defer writer.Wait() // the line may arrive before the reply
	writer.Go(func() {
		for range 3 {
			if _, err := server.Do("INCR", "counter"); err != nil {
				t.Error(err)
			}
		}
	})
	assert.Len(t, monitor.WaitFor(`"INCR"`, 3), 3)
}

func TestMonitorSyncProvesThatNothingCame(t *testing.T) {
	t.Parallel()
	server := StartOne(t)
	monitor := server.Monitor(t)
	for range 10 {
		monitor.Clear()
		monitor.Sync()
		assert.Empty(t, monitor.Lines(), "nothing came, and the mark is not shown")
		for range 20 {
			mustDo(t, server, "INCR", "counter")
		}
		monitor.Sync()
		assert.Len(t, monitor.Lines(), 20, "all that came")
	}
}

func TestMonitorFailsTheTestWhenItsServerDies(t *testing.T) {
	t.Parallel()
	server := StartOne(t)
	monitor := server.Monitor(t)
	mustDo(t, server, "INCR", "counter")
	monitor.Sync()
	require.NoError(t, server.Kill())
	ended := judge(func(tb testing.TB) {
		monitor.tb = tb
		monitor.WaitFor(`"INCR"`, 1) // recorded before
		monitor.WaitFor(`"INCR"`, 2)
	})
	assert.Equal(t, &verdict{failed: true}, ended)
}

func TestMonitorKeepsTheNewestOfTooManyLines(t *testing.T) {
	t.Parallel()
	monitor := &Monitor{changed: make(chan struct{})}
	for range maxLines {
		monitor.record("old")
	}
	monitor.record("new")
	assert.Len(t, monitor.Lines(), maxLines/2+1)
	assert.Len(t, monitor.Matching("new"), 1)
}
