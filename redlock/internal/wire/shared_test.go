package wire

import (
	"fmt"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A wakeServer is a server on which scripts and requests run, and the process "alive" that listens.
type wakeServer struct {
	*server
	wakes redis.Conn
}

func newWakeServer(t *testing.T) *wakeServer {
	t.Helper()
	s := newServer(t)
	s.connect(t)
	return &wakeServer{s, s.listen(t)}
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

// read asks to read for a minute, as the process "alive".
func (s *wakeServer) read(value, turn string) []any {
	s.t.Helper()
	return s.onA([]any{value, 60000, 5000, turn, "alive", 0, 4096, ""}, "shared_wait").([]any)
}

// release releases for a reader or a writer, and returns what was published.
func (s *wakeServer) release(want int64, value string, files ...string) []string {
	s.t.Helper()
	require.Equal(s.t, want, s.onA([]any{value, 5000}, files...))
	return s.woken()
}

func reader(i int) string { return fmt.Sprintf("%sreader %d", pairForm, i) }

// isGranted is what a script that waits answers when it grants.
var isGranted = []any{int64(1), int64(1)}

func TestTheOldestWaiterLearnsThatReadersEndEarlier(t *testing.T) {
	s := newWakeServer(t)
	for _, test := range []struct {
		name       string
		own, other int // times to live of the reader that releases, and of another
		want       []string
	}{
		{"the longest reader releases", 60000, 30000, []string{"?" + reader(2)}},
		{"another reader lives longer", 30000, 60000, nil},
		{"another reader lives as long", 60000, 59995, nil},
	} {
		s.do("FLUSHALL")
		for i, ttl := range []int{test.own, test.other} {
			require.Equal(t, int64(1), s.onA([]any{reader(i), ttl, "", ""}, "shared_acquire"))
		}
		s.do("ZADD", waitKey+"a", 1, "dead:"+pairForm, 2, "+alive:"+reader(2), 3, "alive:"+pairForm)
		assert.Equal(t, test.want, s.release(1, reader(0), "shared_release"), test.name)
	}
}

// Clients of other libraries have their turn before readers, too.
func TestReadersLeaveAKeyFreeForTheTurnOfOthers(t *testing.T) {
	s := newWakeServer(t)
	const beginTurn = "local time = redis.call('TIME')\n" +
		"redis.call('SET', 'redquorum:others:a', string.format('%.0f 60000', time[1] * 1000000 + time[2]))\n"
	for i, turn := range []string{"", "1"} {
		args := []any{reader(i), 60000, 5000, turn, "alive", 0, 4096, ""}
		s.do("EVAL", beginTurn, 1, "a")
		answers := s.onA(args, "shared_wait").([]any)
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
	s.ask(AcquireShared("a", "reads", time.Minute, false, "", Fencing{}))
	s.do("SET", "b", "writes", "PX", 60000)
	e := NewExtension(2)
	e.Add([]string{"b"}, "writes", 300*time.Second)
	assert.Same(t, extendScript, e.Request().Script)
	assert.Equal(t, "b", e.Request().Key)
	e.AddShared([]string{"a"}, "reads", 200*time.Second)
	assert.Same(t, extendKindsScript, e.Request().Script)
	assert.Empty(t, e.Request().Key, "several")
	assert.Equal(t, allExtended, s.ask(e.Request()))
	for key, most := range map[string]int{"a": 200000, "b": 300000} {
		assert.InDelta(t, most, s.left(key), 60000)
	}
	s.do("RPUSH", "c", "no lock")
	extend := func(names []string, args ...any) string { return inWords(s.eval(names, args, extendKinds...)) }
	assert.Equal(t, "[0 0 2 2]", extend([]string{"a", "b", "d", "e"}, "reads", 200000, "writes", "+300000", "reads", "!+200000", "writes", "!300000"))
	assert.Contains(t, extend([]string{"c", "a"}, "reads", "+200000", "reads", "+200000"), "WRONGTYPE")
	assert.Equal(t, s.get("a"), s.get("d"))
	assert.Equal(t, "writes", s.get("e"))
}

func TestReadersAreServedTogetherBesideThePlaceOfOthers(t *testing.T) {
	s := newWakeServer(t)
	holder := pairForm + "holder"
	s.do("SET", "a", holder, "PX", 60000)
	s.do("ZADD", waitKey+"a", 1, "+alive:"+reader(1), 2, "anyone", 3, "+alive:"+reader(2), 4, "alive:"+pairForm, 5, "+alive:"+reader(3))
	s.do("SET", "redquorum:waits:a", "")
	assert.Equal(t, []string{reader(1), reader(2), "?" + pairForm}, s.release(2, holder, releases...))
	assert.Equal(t, []string{"anyone", "alive:" + pairForm, "+alive:" + reader(3)}, s.members(waitKey+"a"))
	s.do("ZREM", waitKey+"a", "alive:"+pairForm)
	require.Equal(t, isGranted, s.read(reader(1), "1"))
	assert.Equal(t, []string{reader(3)}, s.woken())
	assert.Equal(t, []string{"anyone"}, s.members(waitKey+"a"))
}

// A list ends with its last place, which may have been taken only to look at it.
func TestAListOnWhichAPlaceIsPutBackStillEnds(t *testing.T) {
	s := newWakeServer(t)
	for _, behind := range []string{"alive:" + pairForm, "others", "anyone"} {
		holder := pairForm + "holder"
		s.do("FLUSHALL")
		s.do("SET", "a", holder, "PX", 60000)
		s.do("ZADD", waitKey+"a", 1, "+alive:"+reader(1), 2, behind)
		s.do("PEXPIRE", waitKey+"a", 60000)
		s.do("SET", "redquorum:waits:a", "", "PX", 60000)
		s.release(2, holder, releases...)
		assert.Equal(t, []string{behind}, s.members(waitKey+"a"))
		assert.Positive(t, s.left(waitKey+"a"), behind)
	}
}
