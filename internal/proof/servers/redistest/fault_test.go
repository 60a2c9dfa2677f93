package redistest

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// moment is how long a test waits for something that must not come.
const moment = 40 * time.Millisecond

// write sends text on a connection without a Redis client.
func write(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	_, err := io.WriteString(conn, text)
	require.NoError(t, err)
}

func counter(t *testing.T, server *Server) int {
	t.Helper()
	count, err := redis.Int(server.Do("GET", "counter"))
	if err != nil {
		require.ErrorIs(t, err, redis.ErrNil)
	}
	return count
}

func TestDelayIsLatencyAndKeepsTheOrder(t *testing.T) {
	t.Parallel()
	_, proxy := proxied(t)
	for _, direction := range []Direction{Requests, Replies} {
		conn := answers(t, proxy.Addr())
		const commands, base = 20, 500 * time.Millisecond
		proxy.Delay(direction, base, 10*time.Millisecond)
		start := time.Now()
		for i := range commands {
			send(t, conn, "ECHO", i)
			time.Sleep(time.Millisecond) // a chunk of its own
		}
		for i := range commands {
			echo, err := redis.Int(conn.Receive())
			require.NoError(t, err)
			assert.Equal(t, i, echo)
		}
		passed := time.Since(start)
		assert.GreaterOrEqual(t, passed, base-10*time.Millisecond)
		assert.Less(t, passed, commands*base/2, "they travelled at the same time")
		proxy.Heal()
	}
}

func TestDelayOfBothDirectionsAddsUp(t *testing.T) {
	t.Parallel()
	_, proxy := proxied(t)
	conn := answers(t, proxy.Addr())
	proxy.Delay(Both, moment, 0)
	start := time.Now()
	_, err := conn.Do("PING")
	require.NoError(t, err)
	assert.GreaterOrEqual(t, time.Since(start), 2*moment)
}

func TestJitterStaysInItsBoundsAndFollowsTheSeed(t *testing.T) {
	t.Parallel()
	series := func(seed uint64, f laneFaults) []time.Duration {
		random := rand.New(rand.NewPCG(seed, seed))
		drawn := make([]time.Duration, 1000)
		for i := range drawn {
			drawn[i] = f.draw(random)
			assert.GreaterOrEqual(t, drawn[i], max(0, f.base-f.jitter))
			assert.LessOrEqual(t, drawn[i], f.base+f.jitter)
		}
		return drawn
	}
	wide := laneFaults{base: 5 * time.Millisecond, jitter: 8 * time.Millisecond}
	assert.Equal(t, series(1, wide), series(1, wide))
	assert.NotEqual(t, series(1, wide), series(2, wide))
	assert.Contains(t, series(1, wide), time.Duration(0), "clamped")
	series(1, laneFaults{base: 8 * time.Millisecond, jitter: 5 * time.Millisecond})
	series(1, laneFaults{base: 8 * time.Millisecond})

	proxy := &Proxy{}
	proxy.Seed(3)
	first := proxy.random.Uint64()
	proxy.Seed(3)
	assert.Equal(t, first, proxy.random.Uint64())
}

func TestEndOfDelayDeliversAtOnce(t *testing.T) {
	t.Parallel()
	_, proxy := proxied(t)
	conn := answers(t, proxy.Addr())
	proxy.Delay(Both, time.Hour, time.Minute)
	send(t, conn, "PING")
	time.Sleep(5 * time.Millisecond) // so that it is in transit
	proxy.Delay(Both, 0, 0)
	_, err := conn.Receive()
	require.NoError(t, err)
}

func TestCutRepliesEndsAReplyInTheMiddleOnce(t *testing.T) {
	t.Parallel()
	_, proxy := proxied(t)
	for _, after := range []int{0, 1, 3, 11} {
		proxy.CutReplies(after)
		conn := rawDial(t, proxy.Addr())
		write(t, conn, "ECHO hello\r\n")
		got, err := io.ReadAll(conn)
		require.NoError(t, err, "closed, not reset")
		assert.Equal(t, "$5\r\nhello\r\n"[:after], string(got))
		answers(t, proxy.Addr())
	}
	proxy.CutReplies(3)
	proxy.Heal()
	answers(t, proxy.Addr())
}

func TestCutAfterRequestHidesWhatWasExecutedOnce(t *testing.T) {
	t.Parallel()
	server, proxy := proxied(t)
	conn := answers(t, proxy.Addr())
	proxy.CutAfterRequest()
	send(t, conn, "INCR", "counter")
	_, err := conn.Receive()
	require.ErrorIs(t, err, syscall.ECONNRESET)
	assert.Equal(t, 1, counter(t, server))
	answers(t, proxy.Addr())
}

func TestHealDisarmsACutThatWaitsForItsAnswer(t *testing.T) {
	t.Parallel()
	server, proxy := proxied(t)
	conn := answers(t, proxy.Addr())
	mustDo(t, server, "CLIENT", "PAUSE", 60_000, "WRITE")
	proxy.CutAfterRequest()
	send(t, conn, "INCR", "counter")
	soon(t, func() bool { return len(proxy.matching(func(l *link) bool { return l.cut })) == 1 }, "forwarded")
	proxy.Heal()
	mustDo(t, server, "CLIENT", "UNPAUSE")
	_, err := conn.Receive()
	require.NoError(t, err)
}

func TestTrickleGivesOneByteAtATime(t *testing.T) {
	t.Parallel()
	_, proxy := proxied(t)
	const every = 4 * time.Millisecond
	proxy.Trickle(every)
	conn := rawDial(t, proxy.Addr())
	start := time.Now()
	write(t, conn, "PING\r\n")
	got, buffer := "", make([]byte, 100)
	for got != "+PONG\r\n" {
		n, err := conn.Read(buffer)
		require.NoError(t, err)
		got += string(buffer[:n])
	}
	assert.GreaterOrEqual(t, time.Since(start), 6*every)

	proxy.Trickle(time.Hour)
	write(t, conn, "PING\r\n")
	_, err := io.ReadFull(conn, buffer[:1])
	require.NoError(t, err)
	proxy.Trickle(0)
	_, err = io.ReadFull(conn, buffer[1:7])
	require.NoError(t, err)
	assert.Equal(t, "+PONG\r\n", string(buffer[:7]))
}

func TestUnknownDirectionPanics(t *testing.T) {
	t.Parallel()
	assert.Panics(t, func() { (&Proxy{}).Drop(Direction(9), true) })
	for _, direction := range []Direction{Requests, Replies, Both} {
		assert.NotEmpty(t, direction.lanes(), fmt.Sprint(direction))
	}
}
