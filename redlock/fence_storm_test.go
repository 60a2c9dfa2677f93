package redlock_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/redlock"
)

// An ordeal is what one master goes through: its clock and counter go wrong again and again, in any
// way.
type ordeal struct {
	*cluster
	random *rand.Rand
	clock  bool // the master's clock goes wrong too, and the clients' are right
}

func (o *ordeal) pick(times ...time.Duration) time.Duration { return times[o.random.IntN(len(times))] }

// next changes something at the first master, and which nodes answer first.
func (o *ordeal) next() {
	counter := "redquorum:fence:a"
	switch o.random.IntN(6) {
	case 0:
		o.do(0, "SET", counter, "text")
	case 1:
		o.do(0, "DEL", counter)
		o.do(0, "ZADD", counter, 1, "x")
	case 2:
		ahead := o.pick(5*time.Second, 15*time.Second, 25*time.Second, 70*time.Second, 3*time.Minute, time.Hour, 400*24*time.Hour)
		o.do(0, "SET", counter, o.cluster.clock.Wall().Add(ahead).UnixMicro())
	case 3:
		if o.clock {
			by := o.pick(0, 0, 12*time.Second, 25*time.Second, time.Minute, time.Hour)
			if o.random.IntN(2) == 0 {
				by = -by
			}
			o.servers[0].SetClock(by, 1)
		}
	}
	for _, server := range o.servers {
		late := time.Duration(o.random.IntN(3)) * time.Millisecond
		server.Delay(func() time.Duration { return late }, nil)
	}
	time.Sleep(o.pick(0, time.Microsecond, time.Millisecond, time.Second, 10*time.Second, 50*time.Second, 11*time.Minute))
}

func TestTokensAreInOrderWhateverOneMasterGoesThrough(t *testing.T) {
	t.Parallel()
	for seed := range uint64(sizeOf(6, 12)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inBubble(t, []int{3, 4, 5}[seed%3], func(t *testing.T, c *cluster) {
				o := &ordeal{c, rand.New(rand.NewPCG(seed, 1)), seed%2 == 0}
				skew := time.Duration(0)
				if !o.clock {
					skew = 15 * time.Second
				}
				lockers := []*redlock.Locker{
					c.locker(redlock.WithFencing()),
					c.locker(redlock.WithFencing(), redlock.WithClock(&skewed{c.clock, skew})),
					c.locker(redlock.WithFencing(), redlock.WithClock(&skewed{c.clock, -skew})),
				}
				var last int64
				for range 40 {
					o.next()
					lock, err := lockers[o.random.IntN(len(lockers))].TryLock(ctx, "a")
					require.NoError(t, err)
					require.Greater(t, lock.Fence(), last)
					assert.Less(t, time.UnixMicro(lock.Fence()).Sub(c.clock.Wall()), 21*time.Second)
					last = lock.Fence()
					require.NoError(t, lock.Unlock(ctx))
					time.Sleep(5 * time.Millisecond) // the slowest nodes have it by then
				}
			})
		})
	}
}
