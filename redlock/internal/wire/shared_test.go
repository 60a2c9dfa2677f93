package wire

import (
	"fmt"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
)

// A wakeServer is a server on which scripts run, by requests too, and the process "alive", which
// listens.
type wakeServer struct {
	*server
	wakes redis.Conn
	node  *pipeline.Node
}

func newWakeServer(t *testing.T) *wakeServer {
	t.Helper()
	s := newServer(t)
	node, err := pipeline.NewNode(s.addr)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, node.Close()) })
	return &wakeServer{s, s.listen(t), node}
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

// An answer is what a call ended with.
type answer struct {
	reply any
	err   error
}

type answerSink chan answer

func (to answerSink) Complete(_ int, reply any, err error) { to <- answer{reply, err} }

// ask sends a request, and returns the reply, which the request has accepted.
func (s *wakeServer) ask(r pipeline.Request) any {
	s.t.Helper()
	to := make(answerSink, 1)
	r.Prove, r.Sink, r.Deadline = false, to, s.node.Clock().Now().Add(time.Minute)
	s.node.Do(pipeline.Call{Request: &r})
	got := <-to
	require.NoError(s.t, got.err)
	return got.reply
}

// vote is ask for a request whose answer is a vote.
func (s *wakeServer) vote(meaning Meaning, r pipeline.Request) quorum.Vote {
	s.t.Helper()
	return meaning.Vote(s.ask(r))
}

// read asks to read for a minute, as the process "alive".
func (s *wakeServer) read(value, turn string) []any {
	s.t.Helper()
	return s.onA([]any{value, 60000, 5000, turn, "alive", 0, 4096, ""}, sharedWaits...).([]any)
}

// write asks to write. A writer that has met readers announces itself.
func (s *wakeServer) write(value string, announced bool) []any {
	s.t.Helper()
	args := []any{value, 60000, 5000, 1, "alive", 0, 4096, ""}
	if announced {
		args = append(args, "", "", 2000)
	}
	return s.onA(args, waits...).([]any)
}

// release releases for a reader or a writer, and returns what was published.
func (s *wakeServer) release(want int64, value string, sources ...string) []string {
	s.t.Helper()
	require.Equal(s.t, want, s.onA([]any{value, 5000}, sources...))
	return s.woken()
}

func reader(i int) string { return fmt.Sprintf("%sreader %d", pairForm, i) }

// What a script that waits answers when it grants, and when it does not, without the time to live,
// which depends on the machine.
var (
	isGranted = []any{int64(1), int64(1)}
	isWaiting = []any{int64(0), int64(1), int64(1)}
)

func untimed(answers []any) []any { return append(answers[:2:2], answers[3:]...) }

func TestReadersThatWaitTogetherAreServedTogetherHoweverManyTheyAre(t *testing.T) {
	s := newWakeServer(t)
	const readers = 150
	first, second := pairForm+"first", pairForm+"second"
	s.do("SET", "a", first, "PX", 60000)
	for i := range readers {
		assert.Equal(t, isWaiting, untimed(s.read(reader(i), "")))
	}
	assert.Equal(t, isWaiting, untimed(s.write(second, false)))
	woken := s.release(2, first, releases...)
	require.Len(t, woken, 64)
	require.Equal(t, isGranted, s.read(reader(3), ""), "it is a reader already")
	assert.Empty(t, s.woken(), "whose turn has come says so")
	for i := 0; i < len(woken); i++ {
		require.Equal(t, reader(i), woken[i])
		require.Equal(t, isGranted, s.read(reader(i), "1"))
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
	assert.Equal(t, int64(1), s.do("ZCARD", waitKey+"a"))
}

func TestAWriterThatMeetsReadersLearnsItAndKeepsNewOnesOut(t *testing.T) {
	s := newWakeServer(t)
	writer, meets := pairForm+"writer", append(isWaiting[:3:3], int64(-4))
	require.Equal(t, isGranted, s.read(reader(1), ""))
	assert.Equal(t, meets, untimed(s.write(writer, false)))
	assert.Equal(t, isGranted, s.read(reader(2), ""), "the writer has not announced itself")
	assert.Equal(t, meets, untimed(s.write(writer, true)))
	answers := s.read(reader(3), "")
	assert.InDelta(t, 60000, answers[2], 30000)
	assert.Equal(t, isWaiting, untimed(answers))
	assert.Equal(t, isGranted, s.read(reader(2), ""), "it is a reader already")
	s.release(1, reader(1), sharedReleases...)
	assert.Contains(t, s.release(2, reader(2), sharedReleases...), writer)
	assert.Equal(t, isGranted, s.write(writer, true))
	assert.Equal(t, int64(0), s.do("EXISTS", "redquorum:intent:a"))
	assert.Equal(t, []string{reader(3)}, s.release(2, writer, releases...))
}

// Without it, the reader would ask again at once, and again.
func TestAReaderLearnsForHowLongAWriterKeepsItOut(t *testing.T) {
	s := newWakeServer(t)
	s.do("SET", "redquorum:intent:a", "a writer's", "PX", 60000)
	answers := s.read(reader(1), "")
	assert.InDelta(t, 60000, answers[2], 30000)
	assert.Equal(t, isWaiting, untimed(answers))
	assert.Equal(t, isGranted, s.read(reader(1), "1"))
	assert.Equal(t, int64(0), s.do("ZCARD", waitKey+"a"))
}

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
			require.Equal(t, int64(1), s.onA([]any{reader(i), ttl, "", ""}, sharedAcquires...))
		}
		s.do("ZADD", waitKey+"a", 1, "dead:"+pairForm, 2, "+alive:"+reader(2), 3, "alive:"+pairForm)
		assert.Equal(t, test.want, s.release(1, reader(0), sharedReleases...), test.name)
	}
}

// Clients of other libraries have their turn before readers, too.
func TestReadersLeaveAKeyFreeForTheTurnOfOthers(t *testing.T) {
	s := newWakeServer(t)
	const beginTurn = "local time = redis.call('TIME')\n" +
		"redis.call('SET', 'redquorum:others:a', string.format('%.0f 60000', time[1] * 1000000 + time[2]))\n"
	for i, turn := range []string{"", "1"} {
		args := []any{reader(i), 60000, 5000, turn, "alive", 0, 4096, ""}
		answers := s.onA(args, append([]string{beginTurn}, sharedWaits...)...).([]any)
		require.Len(t, answers, 5)
		assert.Equal(t, []any{int64(1), int64(-1 - i)}, answers[3:], "the oldest polls")
	}
	s.do("SET", "a", "theirs", "PX", 60000)
	answers := s.read(reader(0), "")
	require.Len(t, answers, 5)
	assert.Positive(t, answers[4])
}

func TestReadersAndMutexesAreExtendedTogether(t *testing.T) {
	s := newServer(t)
	require.Equal(t, int64(1), s.onA([]any{"reads", 60000, "", ""}, sharedAcquires...))
	s.do("SET", "b", "writes", "PX", 60000)
	s.do("RPUSH", "c", "no lock")
	extend := func(names []string, args ...any) string { return inWords(s.eval(names, args, sharedExtends...)) }
	assert.Equal(t, "extended", extend([]string{"a", "b"}, "reads", "+200000", "writes", 300000))
	for key, most := range map[string]int{"a": 200000, "b": 300000} {
		assert.InDelta(t, most, s.left(key), 60000)
	}
	assert.Equal(t, "[0 0 2 2]", extend([]string{"a", "b", "d", "e"}, "reads", 200000, "writes", "+300000", "reads", "+200000", "writes", 300000))
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

func TestTheRequestsOfReadersMeanWhatTheScriptsDo(t *testing.T) {
	s := newWakeServer(t)
	fencing := Fencing{Wall: s.now(), Life: time.Minute}
	keys, one, two, writes := []string{"a"}, pairForm+"one", pairForm+"two", pairForm+"writes"
	const granted, refused = quorum.Granted, quorum.Refused

	reply := s.ask(AcquireShared("a", one, time.Minute, false, "", fencing))
	assert.Equal(t, granted, Grant.Vote(reply))
	assert.Equal(t, fencing.Wall, Fence(reply))
	assert.Equal(t, granted, s.vote(Yes, VerifyShared("a", one)))
	assert.Equal(t, refused, s.vote(Yes, VerifyShared("a", two)))
	for add, want := range []quorum.Vote{granted, granted, quorum.Failed} {
		token := fencing.Wall + []int64{0, 1000, 100_000_000}[add]
		assert.Equal(t, want, s.vote(Raised, RaiseShared("a", one, token, time.Minute)))
	}

	wait := Wait{Keys: keys, Value: writes, TTL: time.Minute, Grace: time.Second, Process: "alive"}
	for _, wait.Intent = range []time.Duration{0, time.Minute} {
		for _, wait.Fencing = range []Fencing{{}, fencing} {
			reply = s.ask(wait.Request())
			assert.Equal(t, refused, Grant.Vote(reply))
			read := ReadWait(reply)
			assert.EqualValues(t, OtherReads, read.Other)
			assert.InDelta(t, time.Minute, read.Left, float64(30*time.Second))
			assert.Equal(t, wait.Intent > 0, s.get("redquorum:intent:a") == writes)
		}
	}
	acquire := func(value string, turn bool) quorum.Vote {
		return s.vote(Grant, AcquireShared("a", value, time.Minute, turn, "", fencing))
	}
	assert.Equal(t, refused, acquire(two, false))
	assert.Equal(t, granted, acquire(two, true))
	assert.Equal(t, granted, s.vote(Released, ReleaseShared("a", two, time.Second, "", false)))
	s.woken() // the writer, if the last reader now ends more than 20 ms earlier

	reads := Wait{Keys: keys, Value: two, TTL: time.Minute, Grace: time.Second, Process: "alive"}
	reply = s.ask(reads.SharedRequest(false))
	assert.Equal(t, refused, Grant.Vote(reply))
	assert.EqualValues(t, OtherNone, ReadWait(reply).Other)
	assert.Equal(t, refused, s.vote(Released, ReleaseAnnounced(keys, writes, time.Second, "alive", false)))
	assert.Empty(t, s.get("redquorum:intent:a"))
	assert.Equal(t, "OK", s.ask(Intend("a", writes, time.Minute)))
	assert.Equal(t, refused, acquire("new", false))
	s.ask(ReleaseAnnounced(keys, writes, time.Second, "alive", true))
	assert.Empty(t, s.get("redquorum:intent:a"))
	assert.Equal(t, []string{two}, s.woken(), "it waited only for the writer")
	reads.Fencing = fencing
	reply = s.ask(reads.SharedRequest(true))
	assert.Equal(t, WaitReply{Granted: true, Fence: fencing.Wall + 1000}, ReadWait(reply), "as high as it was raised")

	announce := Announce("a", writes, time.Minute, time.Minute, fencing)
	assert.Equal(t, refused, s.vote(Grant, announce))
	for _, want := range []quorum.Vote{granted, refused} {
		assert.Equal(t, want, s.vote(Released, ReleaseShared("a", one, time.Second, "", false)))
	}
	s.ask(wait.Request())
	assert.Equal(t, quorum.Handed, s.vote(Released, ReleaseShared("a", two, time.Second, "", true)))
	assert.Equal(t, granted, s.vote(Grant, announce))
	assert.Equal(t, writes, s.get("a"))
}

func TestAnExtensionOfReadersIsForBothKinds(t *testing.T) {
	s := newWakeServer(t)
	plain := NewExtension(1)
	plain.Add([]string{"b"}, "writes", time.Minute)
	assert.Same(t, extendScript, plain.Request().Script)

	s.ask(AcquireShared("a", "reads", time.Minute, false, "", Fencing{}))
	s.do("SET", "b", "writes", "PX", 60000)
	mixed := NewExtension(2)
	mixed.Add([]string{"b"}, "writes", time.Minute)
	mixed.AddShared([]string{"a"}, "reads", time.Hour)
	r := mixed.Request()
	assert.Same(t, sharedExtendScript, r.Script)
	assert.Empty(t, r.Key, "several")
	answer := ReadExtended(s.ask(r))
	for range 2 {
		vote, touched, err := answer.Next(1)
		assert.Equal(t, []any{quorum.Granted, true, nil}, []any{vote, touched, err})
	}
	assert.Greater(t, s.left("a"), int64(60000))

	s.do("DEL", "a")
	shared := NewExtension(1)
	shared.AddShared([]string{"a"}, "reads", time.Hour)
	r = shared.Request()
	assert.Equal(t, "a", r.Key)
	answer = ReadExtended(s.ask(r))
	vote, touched, err := answer.Next(1)
	assert.Equal(t, []any{quorum.Refused, true, nil}, []any{vote, touched, err}, "healed")
}

func TestTheMarkerIsThatOfTheScripts(t *testing.T) {
	assert.Equal(t, Marker, inWords(newServer(t).onA(nil, sharedSource, "return marker")))
}

func TestInspectTellsTheReadersThatAreAlive(t *testing.T) {
	s := newWakeServer(t)
	s.ask(AcquireShared("a", "one", time.Minute, false, "", Fencing{}))
	s.ask(AcquireShared("a", "two", time.Hour, false, "", Fencing{}))
	s.do("ZADD", "redquorum:readers:a", 5, "dead", "inf", "no time")
	in, ok := ReadInspect(s.ask(Inspect("a")))
	require.True(t, ok)
	assert.Equal(t, Marker, in.Value)
	require.Len(t, in.Readers, 2)
	for i, want := range []Reader{{"one", time.Minute}, {"two", time.Hour}} {
		assert.Equal(t, want.Value, in.Readers[i].Value)
		assert.InDelta(t, want.TTL, in.Readers[i].TTL, float64(30*time.Second))
	}
}
