package fake

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// After any faults in any order, counting goes on, nothing is counted that was not sent, nothing
// acknowledged is missing, and no goroutine is left.
func TestNodeComesBackFromAnyFaults(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, WithBuffer(200))
				ctx, stop := context.WithTimeout(context.Background(), 2*time.Second)
				defer stop()
				var sent, acknowledged [3]int
				for i := range sent {
					go func() {
						for ctx.Err() == nil {
							count(ctx, n, &sent[i], &acknowledged[i])
							time.Sleep(time.Millisecond)
						}
					}()
				}
				random := rand.New(rand.NewPCG(seed, 0))
				for ctx.Err() == nil {
					time.Sleep(time.Duration(random.IntN(20_000)) * time.Microsecond)
					befall(n, random)
				}
				n.Restart(true)
				n.Mute(false)
				n.MuteReplies(false)
				n.Delay(nil, nil)
				time.Sleep(time.Minute)
				synctest.Wait()

				assert.Zero(t, n.Connections())
				value, _, _ := n.Get("n")
				got, err := strconv.Atoi(value)
				require.NoError(t, err)
				total := func(each [3]int) int { return each[0] + each[1] + each[2] }
				assert.LessOrEqual(t, got, total(sent))
				assert.GreaterOrEqual(t, got, total(acknowledged))
				assert.Positive(t, total(acknowledged))
				n.LoseRequests(0)
				n.LoseReplies(0)
				n.CutAfterWrite(0)
				assert.Equal(t, fmt.Sprint(got+1), do(dial(t, n), "INCR", "n"))
			})
		})
	}
}

// count sends INCR on a connection of its own until something goes wrong.
func count(ctx context.Context, n *Node, sent, acknowledged *int) {
	dialing, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	conn, err := n.Dial(dialing)
	if err != nil {
		return
	}
	c := redis.NewConn(conn, 50*time.Millisecond, 50*time.Millisecond)
	defer c.Close()
	for ctx.Err() == nil {
		*sent++
		if _, err := c.Do("INCR", "n"); err != nil {
			return
		}
		*acknowledged++
		time.Sleep(time.Millisecond)
	}
}

func befall(n *Node, random *rand.Rand) {
	jitter := func(most int64) func() time.Duration {
		// From the global source: random is not safe for concurrent use.
		return func() time.Duration { return time.Duration(rand.Int64N(most)) }
	}
	switch random.IntN(12) {
	case 0:
		n.Delay(jitter(int64(10*time.Millisecond)), jitter(int64(10*time.Millisecond)))
	case 1:
		n.Delay(nil, nil)
	case 2:
		n.LoseRequests(random.IntN(3))
	case 3:
		n.LoseReplies(random.IntN(3))
	case 4:
		n.CutAfterWrite(random.IntN(5))
	case 5:
		n.Stop()
	case 6:
		n.Continue()
	case 7:
		n.Mute(random.IntN(2) == 0)
	case 8:
		n.MuteReplies(random.IntN(2) == 0)
	case 9:
		n.Kill()
	default:
		n.Restart(true)
	}
}
