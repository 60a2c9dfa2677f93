package redlocktest_test

import (
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/redlock"
	"github.com/redquorum/redquorum/redlock/redlocktest"
)

func TestOtherClientsReachTheMastersByTCP(t *testing.T) {
	c := redlocktest.Start(t, 3)
	ours := c.Locker(t, patiently()...)
	held := lock(t, ours, "a")
	require.Equal(t, 3, votes(t, ours)) // all have answered
	for i, endpoint := range c.Endpoints() {
		conn, err := redis.Dial("tcp", endpoint)
		require.NoError(t, err)
		defer conn.Close()
		value, err := redis.String(conn.Do("GET", "a"))
		require.NoError(t, err)
		assert.Equal(t, held.Value(), value, "node %d", i)
		script := redis.NewScript(1, `return redis.call("SET", KEYS[1], ARGV[1], "NX", "PX", 60000)`)
		_, err = script.Do(conn, "b", "theirs")
		require.NoError(t, err)
	}
	assert.Equal(t, "theirs", c.Holder("b"))

	l, err := redlock.New(c.Endpoints(), patiently()...) // the code under test may do so
	require.NoError(t, err)
	defer l.Close()
	require.NoError(t, l.Ready(t.Context()))
	_, err = l.TryLock(t.Context(), "a")
	require.ErrorIs(t, err, redlock.ErrTaken)
	lock(t, l, "c")
}

func TestFaultsAreTheSameByTCP(t *testing.T) {
	c := redlocktest.Start(t, 1)
	conn, err := redis.Dial("tcp", c.Endpoints()[0])
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Do("SET", "a", "v")
	require.NoError(t, err)

	c.Node(0).Pause()
	require.NoError(t, conn.Send("GET", "a"))
	require.NoError(t, conn.Flush())
	c.Node(0).Resume()
	value, err := redis.String(conn.Receive())
	require.NoError(t, err)
	assert.Equal(t, "v", value)

	c.Node(0).Stop()
	_, err = conn.Do("GET", "a")
	require.Error(t, err)
	assert.Error(t, ask(c.Endpoints()[0], "PING"))
	c.Node(0).Start()
	require.NoError(t, ask(c.Endpoints()[0], "GET", "a"))
	c.Node(0).Restart()
	require.ErrorIs(t, ask(c.Endpoints()[0], "GET", "a"), redis.ErrNil)
}

// ask sends a command on a connection of its own.
func ask(endpoint, name string, args ...any) error {
	conn, err := redis.Dial("tcp", endpoint)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = redis.String(conn.Do(name, args...))
	return err
}

func TestASubtestsLockerEndsWithItAndLeavesTheFaults(t *testing.T) {
	c := redlocktest.Start(t, 3)
	l := c.Locker(t, patiently()...)
	c.Node(0).Stop()
	var inner *redlock.Locker
	t.Run("sub", func(t *testing.T) {
		inner = c.Locker(t, patiently()...)
		lock(t, inner, "a")
	})
	_, err := inner.TryLock(t.Context(), "a")
	require.ErrorIs(t, err, redlock.ErrClosed)
	assert.Equal(t, 2, votes(t, l))
	assert.Empty(t, c.Holder("a"), "released")
}

func TestFaultsDoNotWaitForALockerThatWasClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := redlocktest.Start(t, 3)
		require.NoError(t, c.Locker(t).Close())
		began := time.Now()
		c.Node(0).Stop()
		c.Node(0).Start()
		assert.Zero(t, time.Since(began))
	})
}

func TestTheEndOfATestDoesNotWaitForItsFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := redlocktest.Start(t, 3)
		var ended time.Time
		t.Cleanup(func() { // after the Locker was closed
			assert.Less(t, time.Since(ended), 200*time.Millisecond)
			assert.Empty(t, c.Holder("a"), "released")
		})
		lock(t, c.Locker(t), "a")
		c.Node(0).Stop()
		c.Node(1).Pause()
		c.Node(2).Delay(time.Hour)
		ended = time.Now()
	})
}

func TestNothingRunsAfterTheTest(t *testing.T) {
	var conns []net.Conn
	defer func() {
		for _, conn := range conns {
			conn.Close()
		}
	}()
	much := strings.Repeat("x", 1<<20)
	t.Run("inner", func(t *testing.T) {
		c := redlocktest.Start(t, 5)
		l := c.Locker(t, patiently()...)
		lock(t, l, "a")
		for i, endpoint := range c.Endpoints() {
			conn, err := net.Dial("tcp", endpoint) // a client that never reads, and is forgotten
			require.NoError(t, err)
			conns = append(conns, conn)
			for range 20 {
				_, err = fmt.Fprintf(conn, "*2\r\n$4\r\nECHO\r\n$%d\r\n%s\r\n", len(much), much)
				require.NoError(t, err)
			}
			if i > 0 {
				c.Node(i).Pause()
			}
		}
		c.Node(4).Stop()
		c.Node(3).Delay(time.Hour)
	})
	for limit := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		left := running()
		if left == "" {
			return
		}
		require.Less(t, time.Now(), limit, left)
	}
}

// running returns the goroutines that run code of this module besides tests.
func running() (left string) {
	buf := make([]byte, 1<<20)
	for stack := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		for _, room := range []string{"redlock.", "redlock/redlocktest.", "pool.", "internal/"} {
			if strings.Contains(stack, "redquorum/redquorum/"+room) {
				left += stack + "\n\n"
				break
			}
		}
	}
	return left
}

// BenchmarkLock is a lock and its unlock, in real time.
func BenchmarkLock(b *testing.B) {
	l := redlocktest.Start(b, 5).Locker(b, patiently()...)
	for b.Loop() {
		held, err := l.TryLock(b.Context(), "orders/42")
		if err == nil {
			err = held.Unlock(b.Context())
		}
		require.NoError(b, err)
	}
}

func TestInABubbleTheEndpointsAreNamesAndStartTakesNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		c := redlocktest.Start(t, 5)
		c.Locker(t)
		assert.Less(t, time.Since(began), 10*time.Millisecond)
		for _, endpoint := range c.Endpoints() {
			assert.True(t, strings.HasSuffix(endpoint, ".redlocktest.invalid:6379"), endpoint)
		}
	})
	for _, endpoint := range redlocktest.Start(t, 3).Endpoints() {
		assert.True(t, strings.HasPrefix(endpoint, "127.0.0.1:"), endpoint)
	}
}

// failing is a test that records why it failed.
type failing struct {
	testing.TB
	why atomic.Value
}

func (f *failing) Fatalf(format string, args ...any) {
	f.why.Store(fmt.Sprintf(format, args...))
	runtime.Goexit()
}

func TestWrongArgumentsFailTheTest(t *testing.T) {
	refused := func(call func(tb testing.TB)) string {
		f := &failing{TB: t}
		ended := make(chan bool)
		go func() {
			defer close(ended)
			call(f)
		}()
		<-ended
		why, _ := f.why.Load().(string)
		return why
	}
	assert.Contains(t, refused(func(tb testing.TB) { redlocktest.Start(tb, 0) }), "0 endpoints, not 1 to 64")
	assert.Contains(t, refused(func(tb testing.TB) { redlocktest.Start(tb, 65) }), "65 endpoints, not 1 to 64")
	c := redlocktest.Start(t, 1)
	assert.Contains(t, refused(func(tb testing.TB) { c.Locker(tb, redlock.WithTTL(0)) }), "TTL 0s is not between")
	panics := func() { c.Node(1) }
	assert.Panics(t, panics)
}

// Faults may come from any goroutine, also the first: the masters are a cluster by then.
func TestFirstFaultsMayComeAtOnce(t *testing.T) {
	for _, beside := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := redlocktest.Start(t, 5)
			var all sync.WaitGroup
			for i := range 2 {
				all.Go(func() { c.Node(i).Stop() })
			}
			if !beside {
				all.Wait()
			}
			l := c.Locker(t)
			all.Wait()
			lock, err := l.TryLock(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			if err := lock.Unlock(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
}
