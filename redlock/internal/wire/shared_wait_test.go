package wire

import (
	"fmt"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

// A wakeServer is a server on which scripts run, and the process "alive", which listens.
type wakeServer struct {
	*scriptServer
	wakes redis.Conn
	addr  string
}

func newWakeServer(t *testing.T) *wakeServer {
	t.Helper()
	server := redistest.StartOne(t)
	dial := func() redis.Conn {
		conn, err := redis.Dial("tcp", server.Addr(), redis.DialReadTimeout(10*time.Second))
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, conn.Close()) })
		return conn
	}
	s := &wakeServer{&scriptServer{t, dial()}, dial(), server.Addr()}
	require.NoError(t, redis.PubSubConn{Conn: s.wakes}.Subscribe(WakeChannel+"alive"))
	_, err := s.wakes.Receive()
	require.NoError(t, err)
	return s
}

// woken returns what was published since it was last called.
func (s *wakeServer) woken() (texts []string) {
	s.t.Helper()
	const end = "end"
	s.do("PUBLISH", WakeChannel+"alive", end)
	for {
		message, err := redis.Strings(s.wakes.Receive())
		require.NoError(s.t, err)
		if message[2] == end {
			return texts
		}
		texts = append(texts, message[2])
	}
}

func (s *wakeServer) eval(args []any, sources ...string) any {
	s.t.Helper()
	reply, err := s.run([]string{"a"}, args, sources...)
	require.NoError(s.t, err)
	return reply
}

// read asks to read for a minute, as the process "alive".
func (s *wakeServer) read(value, turn string) []any {
	s.t.Helper()
	return s.eval([]any{value, 60000, 5000, turn, "alive", 0, 4096, ""}, sharedWaits...).([]any)
}

// write asks to write. A writer that has met readers announces itself.
func (s *wakeServer) write(value string, announced bool) []any {
	s.t.Helper()
	args := []any{value, 60000, 5000, 1, "alive", 0, 4096, ""}
	if announced {
		args = append(args, "", "", 2000)
	}
	return s.eval(args, waits...).([]any)
}

func reader(i int) string { return fmt.Sprintf("%sreader %d", pairForm, i) }

func TestReadersThatWaitTogetherAreServedTogetherHoweverManyTheyAre(t *testing.T) {
	s := newWakeServer(t)
	const readers = 150
	first, second := pairForm+"first", pairForm+"second"
	s.do("SET", "a", first, "PX", 60000)
	for i := range readers {
		assert.Equal(t, []any{int64(0), int64(1), int64(1)}, untimed(s.read(reader(i), "")))
	}
	assert.Equal(t, []any{int64(0), int64(1), int64(1)}, untimed(s.write(second, false)))
	require.Equal(t, int64(2), s.eval([]any{first, 5000}, releases...))
	woken := s.woken()
	require.Len(t, woken, 64)
	require.Equal(t, []any{int64(1), int64(1)}, s.read(reader(3), ""), "it is a reader already")
	assert.Empty(t, s.woken(), "whose turn has come says so")
	for i := 0; i < len(woken); i++ {
		require.Equal(t, reader(i), woken[i])
		require.Equal(t, []any{int64(1), int64(1)}, s.read(reader(i), "1"))
		woken = append(woken, s.woken()...)
		if i == 0 {
			assert.Len(t, woken, 128)
		}
		if len(woken) > readers {
			break
		}
	}
	assert.Equal(t, "?"+second, woken[readers], "readers have passed the writer, which does not know of them")
	assert.Equal(t, int64(readers), s.do("ZCARD", "redquorum:readers:a"))
	assert.Equal(t, int64(1), s.do("ZCARD", "redquorum:wait:a"))
}

// inSeconds rounds the time to live in an answer of a script that waits.
func inSeconds(answers []any) []any {
	answers[2] = (answers[2].(int64) + 500) / 1000
	return answers
}

// untimed leaves it out, in a test whose length depends on the machine.
func untimed(answers []any) []any { return []any{answers[0], answers[1], answers[3]} }

func TestAWriterThatMeetsReadersLearnsItAndKeepsNewOnesOut(t *testing.T) {
	s := newWakeServer(t)
	writer := pairForm + "writer"
	require.Equal(t, []any{int64(1), int64(1)}, s.read(reader(1), ""))
	want := []any{int64(0), int64(1), int64(60), int64(1), int64(-4)}
	assert.Equal(t, want, inSeconds(s.write(writer, false)))
	assert.Equal(t, []any{int64(1), int64(1)}, s.read(reader(2), ""), "the writer has not announced itself")
	assert.Equal(t, want, inSeconds(s.write(writer, true)))
	assert.Equal(t, []any{int64(0), int64(1), int64(60), int64(1)}, inSeconds(s.read(reader(3), "")))
	assert.Equal(t, []any{int64(1), int64(1)}, s.read(reader(2), ""), "it is a reader already")
	for i := 1; i <= 2; i++ {
		require.Equal(t, int64(i), s.eval([]any{reader(i), 5000}, sharedReleases...))
	}
	assert.Contains(t, s.woken(), writer)
	assert.Equal(t, []any{int64(1), int64(1)}, s.write(writer, true))
	assert.Equal(t, int64(0), s.do("EXISTS", "redquorum:intent:a"))
	require.Equal(t, int64(2), s.eval([]any{writer, 5000}, releases...))
	assert.Equal(t, []string{reader(3)}, s.woken())
}

// Without it, the reader would ask again at once, and again.
func TestAReaderLearnsForHowLongAWriterKeepsItOut(t *testing.T) {
	s := newWakeServer(t)
	s.do("SET", "redquorum:intent:a", "a writer's", "PX", 3000)
	assert.Equal(t, []any{int64(0), int64(1), int64(3), int64(1)}, inSeconds(s.read(reader(1), "")))
	assert.Equal(t, []any{int64(1), int64(1)}, s.read(reader(1), "1"))
	assert.Equal(t, int64(0), s.do("ZCARD", "redquorum:wait:a"))
}

func TestTheOldestWaiterLearnsThatReadersEndEarlier(t *testing.T) {
	for _, test := range []struct {
		name       string
		own, other int // times to live of the reader that releases, and of another
		woken      bool
	}{
		{"the longest reader releases", 60000, 30000, true},
		{"another reader lives longer", 30000, 60000, false},
		{"another reader lives as long", 60000, 59995, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newWakeServer(t)
			for i, ttl := range []int{test.own, test.other} {
				require.Equal(t, int64(1), s.eval([]any{reader(i), ttl, "", ""}, sharedAcquires...))
			}
			s.do("ZADD", "redquorum:wait:a", 1, "dead:"+pairForm, 2, "+alive:"+reader(2), 3, "alive:"+pairForm)
			require.Equal(t, int64(1), s.eval([]any{reader(0), 5000}, sharedReleases...))
			var want []string
			if test.woken {
				want = []string{"?" + reader(2)}
			}
			assert.Equal(t, want, s.woken())
		})
	}
}

// Clients of other libraries have their turn before readers, too.
func TestReadersLeaveAKeyFreeForTheTurnOfOthers(t *testing.T) {
	s := newWakeServer(t)
	const beginTurn = "local time = redis.call('TIME')\n" +
		"redis.call('SET', 'redquorum:others:a', string.format('%.0f 1000', time[1] * 1000000 + time[2]))\n"
	for i, turn := range []string{"", "1"} {
		args := []any{reader(i), 60000, 5000, turn, "alive", 0, 4096, ""}
		answers := s.eval(args, append([]string{beginTurn}, sharedWaits...)...).([]any)
		require.Len(t, answers, 5)
		assert.Equal(t, []any{int64(1), int64(-1 - i)}, answers[3:], "the oldest polls")
	}
	s.do("SET", "a", "theirs", "PX", 60000)
	answers := s.read(reader(0), "")
	require.Len(t, answers, 5)
	assert.Positive(t, answers[4])
}

func TestReadersAndMutexesAreExtendedTogether(t *testing.T) {
	s := newWakeServer(t)
	require.Equal(t, int64(1), s.eval([]any{"reads", 10000, "", ""}, sharedAcquires...))
	s.do("SET", "b", "writes", "PX", 10000)
	s.do("RPUSH", "c", "no lock")
	extend := func(names []string, args ...any) string {
		reply, err := s.run(names, args, sharedExtends...)
		require.NoError(t, err)
		return inWords(reply)
	}
	assert.Equal(t, "extended", extend([]string{"a", "b"}, "reads", "+20000", "writes", 30000))
	for key, most := range map[string]int64{"a": 20000, "b": 30000} {
		assert.InDelta(t, most, s.do("PTTL", key), 9000)
	}
	assert.Equal(t, "[0 0 2 2]", extend([]string{"a", "b", "d", "e"}, "reads", 20000, "writes", "+30000", "reads", "+20000", "writes", 30000))
	assert.Contains(t, extend([]string{"c", "a"}, "reads", "+20000", "reads", "+20000"), "WRONGTYPE")
	assert.Equal(t, s.get("a"), s.get("d"))
	assert.Equal(t, "writes", s.get("e"))
}

func TestReadersAreServedTogetherBesideThePlaceOfOthers(t *testing.T) {
	s := newWakeServer(t)
	holder := pairForm + "holder"
	s.do("SET", "a", holder, "PX", 60000)
	s.do("ZADD", "redquorum:wait:a", 1, "+alive:"+reader(1), 2, "anyone", 3, "+alive:"+reader(2), 4, "alive:"+pairForm, 5, "+alive:"+reader(3))
	s.do("SET", "redquorum:waits:a", "")
	require.Equal(t, int64(2), s.eval([]any{holder, 5000}, releases...))
	assert.Equal(t, []string{reader(1), reader(2), "?" + pairForm}, s.woken())
	left, err := redis.Strings(s.conn.Do("ZRANGE", "redquorum:wait:a", 0, -1))
	require.NoError(t, err)
	assert.Equal(t, []string{"anyone", "alive:" + pairForm, "+alive:" + reader(3)}, left)
	s.do("ZREM", "redquorum:wait:a", "alive:"+pairForm)
	require.Equal(t, []any{int64(1), int64(1)}, s.read(reader(1), "1"))
	assert.Equal(t, []string{reader(3)}, s.woken())
	assert.Equal(t, int64(1), s.do("ZCARD", "redquorum:wait:a"))
}

// A list ends with its last place, which may have been taken only to look at it.
func TestAListOnWhichAPlaceIsPutBackStillEnds(t *testing.T) {
	for _, behind := range []string{"alive:" + pairForm, "others", "anyone"} {
		s := newWakeServer(t)
		holder := pairForm + "holder"
		s.do("SET", "a", holder, "PX", 60000)
		s.do("ZADD", "redquorum:wait:a", 1, "+alive:"+reader(1), 2, behind)
		s.do("PEXPIRE", "redquorum:wait:a", 60000)
		s.do("SET", "redquorum:waits:a", "", "PX", 60000)
		require.Equal(t, int64(2), s.eval([]any{holder, 5000}, releases...))
		assert.Equal(t, int64(1), s.do("ZCARD", "redquorum:wait:a"), behind)
		assert.Positive(t, s.do("PTTL", "redquorum:wait:a"), behind)
	}
}
