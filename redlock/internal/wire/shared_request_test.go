package wire

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
)

// A requestServer is a server that is asked by requests, through a node of the pipeline.
type requestServer struct {
	*wakeServer
	node *pipeline.Node
}

func newRequestServer(t *testing.T) *requestServer {
	t.Helper()
	s := newWakeServer(t)
	node, err := pipeline.NewNode(s.addr)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, node.Close()) })
	return &requestServer{s, node}
}

// An answer is what a call ended with.
type answer struct {
	reply any
	err   error
}

type answerSink chan answer

func (to answerSink) Complete(_ int, reply any, err error) { to <- answer{reply, err} }

// ask sends a request, and returns the reply, which the request has accepted.
func (s *requestServer) ask(r pipeline.Request) any {
	s.t.Helper()
	to := make(answerSink, 1)
	r.Prove, r.Sink, r.Deadline = false, to, s.node.Clock().Now().Add(10*time.Second)
	s.node.Do(pipeline.Call{Request: &r})
	got := <-to
	require.NoError(s.t, got.err)
	return got.reply
}

func TestTheRequestsOfReadersMeanWhatTheScriptsDo(t *testing.T) {
	s := newRequestServer(t)
	fencing := Fencing{Wall: time.Now().UnixMicro(), Life: time.Minute}
	keys, one, two, writes := []string{"a"}, pairForm+"one", pairForm+"two", pairForm+"writes"

	reply := s.ask(AcquireShared("a", one, time.Minute, false, "", fencing))
	assert.Equal(t, quorum.Granted, Grant.Vote(reply))
	assert.Equal(t, fencing.Wall, Fence(reply))
	assert.Equal(t, quorum.Granted, Yes.Vote(s.ask(VerifyShared("a", one))))
	assert.Equal(t, quorum.Refused, Yes.Vote(s.ask(VerifyShared("a", two))))
	for add, want := range []quorum.Vote{quorum.Granted, quorum.Granted, quorum.Failed} {
		token := fencing.Wall + []int64{0, 1000, 100_000_000}[add]
		assert.Equal(t, want, Raised.Vote(s.ask(RaiseShared("a", one, token, time.Minute))))
	}

	wait := Wait{Keys: keys, Value: writes, TTL: time.Minute, Grace: time.Second, Process: "alive"}
	for _, wait.Intent = range []time.Duration{0, time.Minute} {
		for _, wait.Fencing = range []Fencing{{}, fencing} {
			reply = s.ask(wait.Request())
			assert.Equal(t, quorum.Refused, Grant.Vote(reply))
			read := ReadWait(reply)
			assert.EqualValues(t, OtherReads, read.Other)
			assert.InDelta(t, time.Minute, read.Left, float64(30*time.Second))
			assert.Equal(t, wait.Intent > 0, s.get("redquorum:intent:a") == writes)
		}
	}
	assert.Equal(t, quorum.Refused, Grant.Vote(s.ask(AcquireShared("a", two, time.Minute, false, "", fencing))))
	assert.Equal(t, quorum.Granted, Grant.Vote(s.ask(AcquireShared("a", two, time.Minute, true, "", fencing))))
	assert.Equal(t, quorum.Granted, Released.Vote(s.ask(ReleaseShared("a", two, time.Second, "", false))))
	s.woken() // the writer, if the last reader now ends more than 20 ms earlier

	reads := Wait{Keys: keys, Value: two, TTL: time.Minute, Grace: time.Second, Process: "alive"}
	reply = s.ask(reads.SharedRequest(false))
	assert.Equal(t, quorum.Refused, Grant.Vote(reply))
	assert.EqualValues(t, OtherNone, ReadWait(reply).Other)
	assert.Equal(t, quorum.Refused, Released.Vote(s.ask(ReleaseAnnounced(keys, writes, time.Second, "alive", false))))
	assert.Empty(t, s.get("redquorum:intent:a"))
	assert.Equal(t, "OK", s.ask(Intend("a", writes, time.Minute)))
	assert.Equal(t, quorum.Refused, Grant.Vote(s.ask(AcquireShared("a", "new", time.Minute, false, "", fencing))))
	s.ask(ReleaseAnnounced(keys, writes, time.Second, "alive", true))
	assert.Empty(t, s.get("redquorum:intent:a"))
	assert.Equal(t, []string{two}, s.woken(), "it waited only for the writer")
	reads.Fencing = fencing
	reply = s.ask(reads.SharedRequest(true))
	assert.Equal(t, quorum.Granted, Grant.Vote(reply))
	assert.Equal(t, WaitReply{Granted: true, Fence: fencing.Wall + 1000}, ReadWait(reply), "as high as it was raised")

	assert.Equal(t, quorum.Refused, Grant.Vote(s.ask(Announce("a", writes, time.Minute, time.Minute, fencing))))
	assert.Equal(t, quorum.Granted, Released.Vote(s.ask(ReleaseShared("a", one, time.Second, "", false))))
	assert.Equal(t, quorum.Refused, Released.Vote(s.ask(ReleaseShared("a", one, time.Second, "", false))))
	s.ask(wait.Request())
	assert.Equal(t, quorum.Handed, Released.Vote(s.ask(ReleaseShared("a", two, time.Second, "", true))))
	assert.Equal(t, quorum.Granted, Grant.Vote(s.ask(Announce("a", writes, time.Minute, time.Minute, fencing))))
	assert.Equal(t, writes, s.get("a"))
}

func TestAnExtensionOfReadersIsForBothKinds(t *testing.T) {
	s := newRequestServer(t)
	plain := NewExtension(1)
	plain.Add([]string{"b"}, "writes", time.Minute)
	r := plain.Request()
	assert.Same(t, extendScript, r.Script)

	s.ask(AcquireShared("a", "reads", time.Minute, false, "", Fencing{}))
	s.do("SET", "b", "writes", "PX", 60000)
	mixed := NewExtension(2)
	mixed.Add([]string{"b"}, "writes", time.Minute)
	mixed.AddShared([]string{"a"}, "reads", time.Hour)
	r = mixed.Request()
	assert.Same(t, sharedExtendScript, r.Script)
	assert.Empty(t, r.Key, "several")
	answer := ReadExtended(s.ask(r))
	for range 2 {
		vote, touched, err := answer.Next(1)
		require.NoError(t, err)
		assert.Equal(t, quorum.Granted, vote)
		assert.True(t, touched)
	}
	assert.Greater(t, s.do("PTTL", "a"), int64(60000))

	s.do("DEL", "a")
	shared := NewExtension(1)
	shared.AddShared([]string{"a"}, "reads", time.Hour)
	r = shared.Request()
	assert.Equal(t, "a", r.Key)
	answer = ReadExtended(s.ask(r))
	vote, touched, err := answer.Next(1)
	require.NoError(t, err)
	assert.Equal(t, quorum.Refused, vote)
	assert.True(t, touched, "healed")
}

func TestTheMarkerIsThatOfTheScripts(t *testing.T) {
	assert.Equal(t, newScriptServer(t).marker(), Marker)
}

func TestInspectTellsTheReadersThatAreAlive(t *testing.T) {
	s := newRequestServer(t)
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
	for _, wrong := range [][]any{{[]byte("one")}, {int64(1), int64(2)}, {[]byte("one"), []byte("two")}} {
		_, ok := ReadInspect([]any{[]byte(Marker), int64(5), nil, int64(0), nil, wrong})
		assert.False(t, ok, wrong)
	}
	_, ok = ReadInspect([]any{[]byte(Marker), int64(5), nil, int64(0), nil, []any{}})
	assert.True(t, ok)
}
