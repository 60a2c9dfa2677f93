package redlock_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/fakeredis"
	"github.com/redquorum/redquorum/internal/proof/virtual"
	"github.com/redquorum/redquorum/redlock"
)

// intentLife is for how long the intent of a writer that died keeps readers out.
const intentLife = 3 * time.Second

// reading is a call of RLock that waits.
func (c *cluster) reading(l *redlock.Locker) <-chan *redlock.Lock {
	c.T.Helper()
	return c.Queued(func() (*redlock.Lock, error) { return l.RLock(ctx, "a") })
}

// crowd lets readers wait, and returns their locks as they get them. Some share a Locker.
func (c *cluster) crowd(readers int, lockers ...*redlock.Locker) <-chan *redlock.Lock {
	got := make(chan *redlock.Lock, readers)
	for i := range readers {
		go func() {
			lock, err := lockers[i%len(lockers)].RLock(ctx, "a")
			assert.NoError(c.T, err)
			got <- lock
		}()
	}
	return got
}

// took receives the locks of a crowd, and returns how long that takes.
func took(got <-chan *redlock.Lock, readers int) (locks []*redlock.Lock, after time.Duration) {
	after = virtual.Elapsed(func() {
		for range readers {
			locks = append(locks, <-got)
		}
	})
	return locks, after
}

// unheard forbids the messages that wake waiters.
func (c *cluster) unheard() {
	for i := range c.Servers {
		c.Deny(i, "PUBLISH")
	}
}

// sent counts those that the servers got since an instant, by the server that got the most and
// in total, without handshakes and extensions.
func (c *cluster) sent(since clock.Instant) (most, total int) {
	for _, server := range c.Servers {
		n := 0
		for _, command := range server.Commands() {
			if command.At > since && !virtual.OfHandshake(command.Args) {
				n++
			}
		}
		most, total = max(most, n), total+n
	}
	return most, total
}

// While a lock is held for long, those that wait for it ask now and then, because messages may be
// lost. One of the waiters of a process asks for all, and asks their coordinator. A writer behind
// readers also renews its intents.
func TestWaitersOfAllKindsPollNoHarderThanOneOfAMutex(t *testing.T) {
	const mutex = 100 // one waiter asks about 80 times in a minute
	limit := redlock.WithMaxTTL(time.Hour)
	forLong := []redlock.Option{redlock.WithTTL(time.Hour), limit}
	counts := func(c *cluster, wait call, waiters int) (most, total int) {
		c.Slow(time.Millisecond)
		l, limited := c.Locker(limit), c.Within(62*time.Second)
		var ends []<-chan error
		for range waiters {
			ends = append(ends, c.Ending(func() error { _, err := wait(limited, l); return err }))
		}
		time.Sleep(time.Second)
		began := c.Clock.Now()
		time.Sleep(time.Minute)
		most, total = c.sent(began)
		for _, end := range ends {
			require.ErrorIs(c.T, <-end, context.DeadlineExceeded)
		}
		return most, total
	}
	eachKind(t, 3, func(t *testing.T, c *cluster, k kind) {
		c.Limit(time.Hour)
		c.allOf(k, c.Locker(forLong...))
		most, total := counts(c, k.wait, 50)
		t.Log("50 waiters:", most, total)
		assert.Less(t, most, mutex)
	})
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.Limit(time.Hour)
		c.Read(c.Locker(forLong...))
		most, total := counts(c, oneName((*redlock.Locker).Lock), 1)
		t.Log("a writer behind a reader:", most, total)
		assert.Less(t, most, mutex)
		assert.Less(t, total, 3*mutex, "an intent at each other node for each poll")
	})
}

// More wait than one release serves.
func TestManyReadersOfOneNameWaitAndAreServedTogether(t *testing.T) {
	for nodes, readers := range map[int]int{1: 10, 3: 200, 5: 200} {
		inBubble(t, nodes, func(t *testing.T, c *cluster) {
			const latency = 2 * time.Millisecond
			c.Slow(latency)
			l := c.Renewing()
			writer := c.Lock(l, "a")
			got := c.crowd(readers, l, c.Renewing(), c.Renewing(), c.Renewing())
			time.Sleep(5 * time.Second)
			require.Empty(t, got)
			c.Unlock(writer)
			locks, after := took(got, readers)
			t.Log(nodes, "nodes:", after)
			assert.Less(t, after, 12*latency, "a few round trips")
			if nodes == 1 { // the turns of other libraries would come in between
				c.Unlock(locks...)
				return
			}
			next := c.Waiting(c.Renewing(), "a")
			time.Sleep(30 * time.Second)
			for _, lock := range locks {
				require.NoError(t, lock.Verify(ctx), "all are renewed")
			}
			c.Unlock(locks[1:]...)
			require.Empty(t, next)
			c.Unlock(locks[0])
			began := c.Clock.Now()
			lock := <-next
			assert.Less(t, c.Clock.Now().Sub(began), 5*latency)
			c.Unlock(lock)
			c.LeavesNothing(0)
		})
	}
}

// No message tells them, their coordinator is gone, or the one that polls has given up: those that
// do not poll get the lock with the one that does.
func TestReadersThatDoNotPollGetTheLockWithoutMessages(t *testing.T) {
	const readers = 50
	for name, happens := range map[string]func(c *cluster){
		"no messages": func(c *cluster) { c.unheard() },
		"their coordinator stops": func(c *cluster) {
			for i, server := range c.Servers {
				if n, _ := c.Do(i, "ZCARD", "redquorum:wait:a").(int64); n > 0 {
					server.Stop()
					c.T.Cleanup(server.Continue)
				}
			}
		},
	} {
		for _, another := range []bool{false, true} { // polled first, and has left
			runBubble(t, fmt.Sprintf("%s, another has left: %t", name, another), 3, func(t *testing.T, c *cluster) {
				c.Slow(time.Millisecond)
				writer, l := c.Lock(c.Renewing(), "a"), c.Renewing()
				if another {
					limited := c.Within(2 * time.Second)
					gone := c.Ending(func() error { _, err := l.RLock(limited, "a"); return err })
					defer func() { require.ErrorIs(t, <-gone, context.DeadlineExceeded) }()
					time.Sleep(time.Second)
				}
				got := c.crowd(readers, l)
				time.Sleep(3 * time.Second)
				happens(c)
				c.Unlock(writer)
				locks, after := took(got, readers)
				assert.Less(t, after, 2500*time.Millisecond)
				c.Unlock(locks...)
			})
		}
	}
}

func TestAWriterThatGivesUpLetsReadersIn(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		a, b := c.Renewing(), c.Renewing()
		first := c.Read(a)
		limited := c.Within(3 * time.Second)
		over := c.Ending(func() error { _, err := b.Lock(limited, "a"); return err })
		time.Sleep(2 * time.Second)
		_, err := a.TryRLock(ctx, "a")
		require.ErrorIs(t, err, redlock.ErrTaken)
		second := c.reading(a)
		require.ErrorIs(t, <-over, context.DeadlineExceeded)
		began := c.Clock.Now()
		lock := <-second
		assert.Less(t, c.Clock.Now().Sub(began), 50*time.Millisecond)
		virtual.Settle()
		c.Unlock(first, lock, c.Read(a))
		c.LeavesNothing(0)
	})
}

// readerHold is for how long the readers of streamOf have the lock.
const readerHold = 300 * time.Millisecond

// streamOf lets readers come one after the other, so that the name always has one if nobody keeps
// them out. Half of them wait. Stop ends them, and must be called. Came counts those that got the
// lock.
func (c *cluster) streamOf(name string) (came *atomic.Int64, stop func()) {
	came = new(atomic.Int64)
	ending, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	for i := range 4 {
		l := c.Renewing()
		acquire := l.TryRLock
		if i%2 == 0 {
			acquire = l.RLock
		}
		all.Go(func() {
			time.Sleep(time.Duration(i) * readerHold / 4)
			for ending.Err() == nil {
				lock, err := acquire(ending, name)
				if err != nil {
					time.Sleep(3 * time.Millisecond)
					continue
				}
				came.Add(1)
				time.Sleep(readerHold)
				assert.NoError(c.T, lock.Unlock(ctx))
			}
		})
	}
	return came, func() { cancel(); all.Wait() }
}

// A writer that waits keeps new readers out, one of several names out of the name that it waits
// for. One that nobody wakes polls, and keeps readers out all the same. One that was overtaken
// waits at every node: readers that come meanwhile would share the lock with those before them, and
// there would always be one.
func TestAWriterIsServedWhateverReadersCome(t *testing.T) {
	both := func(ctx context.Context, l *redlock.Locker, _ string) (*redlock.Lock, error) {
		return l.LockAll(ctx, []string{"b", "a"})
	}
	one := func(ctx context.Context, l *redlock.Locker, name string) (*redlock.Lock, error) {
		return l.Lock(ctx, name)
	}
	for _, test := range []struct {
		what      string
		nodes     int
		forbidden string
		write     func(ctx context.Context, l *redlock.Locker, name string) (*redlock.Lock, error)
		most      time.Duration
	}{
		{"of one name, one node", 1, "", one, readerHold + 20*time.Millisecond},
		{"of one name", 3, "", one, readerHold + 20*time.Millisecond},
		{"of one name, five nodes", 5, "", one, readerHold + 20*time.Millisecond},
		{"of a set, one node", 1, "", both, 20 * readerHold},
		{"of a set", 3, "", both, 20 * readerHold},
		{"of a set, five nodes", 5, "", both, 20 * readerHold},
		{"that may not subscribe", 3, "SUBSCRIBE", one, readerHold + 2*time.Second},
		{"with a place at every node", 3, "", redlock.LockOvertaken, 2 * readerHold},
	} {
		runBubble(t, test.what, test.nodes, func(t *testing.T, c *cluster) {
			for i := range c.Servers {
				c.Deny(i, test.forbidden)
			}
			c.Slow(2 * time.Millisecond)
			_, stopA := c.streamOf("a")
			defer stopA()
			_, stopB := c.streamOf("b")
			defer stopB()
			time.Sleep(time.Second)
			l := c.Renewing()
			for range 3 {
				began := c.Clock.Now()
				lock, err := test.write(c.Within(time.Minute), l, "a")
				require.NoError(t, err)
				assert.Less(t, c.Clock.Now().Sub(began), test.most)
				c.Unlock(lock)
				time.Sleep(time.Second)
			}
		})
	}
}

// One of two writers that wait leaves. The nodes kept its intent only, and the other's takes its
// place.
func TestAWriterThatLeavesLetsNoReadersInBeforeTheNextWriter(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.Slow(2 * time.Millisecond)
		first := c.Read(c.Renewing())
		writer, leaving := c.Waiting(c.Renewing(), "a"), c.Renewing()
		time.Sleep(time.Second)
		limited := c.Within(200 * time.Millisecond)
		over := c.Ending(func() error { _, err := leaving.Lock(limited, "a"); return err })
		time.Sleep(100 * time.Millisecond)
		assert.NotContains(t, c.Holders("redquorum:intent:a"), "")
		came, stop := c.streamOf("a")
		defer stop()
		require.ErrorIs(t, <-over, context.DeadlineExceeded)
		time.Sleep(2 * time.Second)
		assert.LessOrEqual(t, came.Load(), int64(4), "only within a round trip")
		c.Unlock(first)
		c.Unlock(<-writer)
	})
}

// A release reaches the nodes at different times. The writer that one of them has handed the lock
// to is refused by those that do not know yet that the reader is gone.
func TestAWriterIsServedBeforeLaterReadersHoweverTheReleaseTravels(t *testing.T) {
	for late := range 3 { // the node that the release reaches first
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			c.Slow(200 * time.Microsecond)
			first := c.Read(c.Renewing())
			writer := c.Waiting(c.Renewing(), "a")
			reader := c.reading(c.Renewing())
			time.Sleep(3 * time.Second)
			c.Each(func(n *fakeredis.Node) {
				var sent atomic.Bool
				n.Delay(func() time.Duration {
					if sent.CompareAndSwap(false, true) {
						return 5 * time.Millisecond // the release
					}
					return 200 * time.Microsecond
				}, nil)
			}, (late+1)%3, (late+2)%3)
			go func() { assert.NoError(t, first.Unlock(ctx)) }()
			select {
			case lock := <-writer:
				c.Unlock(lock)
				c.Unlock(<-reader)
			case lock := <-reader:
				assert.Fail(t, "the reader has overtaken the writer")
				c.Unlock(lock)
				c.Unlock(<-writer)
			}
		})
	}
}

// The intent of a writer that has left, or died, arrives at all nodes. Whether or not others read,
// it costs a reader that waits no more than its life, and a poll.
func TestAnIntentThatIsLateDelaysReadersByItsLife(t *testing.T) {
	for beside, most := range map[bool]time.Duration{
		true:  time.Second,
		false: 20 * time.Millisecond, // it is told when the intent expires
	} {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			l := c.Renewing()
			if beside {
				c.Read(c.Renewing())
			}
			c.intent("a writer's", intentLife)
			after := virtual.Elapsed(func() {
				lock, err := l.RLock(ctx, "a")
				require.NoError(t, err)
				c.Unlock(lock)
			})
			assert.GreaterOrEqual(t, after, intentLife-time.Millisecond)
			assert.Less(t, after, intentLife+most)
		})
	}
}

// The intent of a writer arrives when that writer has the lock, and its release takes it back.
func TestAnIntentThatIsLateEndsWithTheReleaseOfItsWriter(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		reader := c.Read(c.Renewing())
		got := c.Waiting(c.Renewing(), "a")
		time.Sleep(time.Second)
		c.Unlock(reader)
		writer := <-got
		c.intent(writer.Value(), intentLife)
		c.Unlock(writer)
		virtual.Settle()
		c.Unlock(c.Read(c.Renewing())) // nobody waits
		c.LeavesNothing(0)
	})
}
