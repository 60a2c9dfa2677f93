package wire

import (
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

const permitValue = pairForm + "a"

// permitServer runs the scripts of a semaphore of two permits.
type permitServer struct{ *scriptServer }

func (s permitServer) take(value string, first, only int, fencing ...any) any {
	s.t.Helper()
	return s.do("EVAL", s.takeArgs(value, first, only, fencing...)...)
}

func (s permitServer) takeArgs(value string, first, only int, fencing ...any) []any {
	return append([]any{
		bare(permitTakes), 1, permitName, value, pairTTL, pairGrace, 2, permitLife.Milliseconds(), first, only,
	}, fencing...)
}

func (s permitServer) pttl(key string) time.Duration {
	s.t.Helper()
	return time.Duration(s.do("PTTL", key).(int64)) * time.Millisecond
}

// A vote must live for the full TTL from the request on, and longer if an extension said so.
func TestARequestForAPermitNeverShortensItsKey(t *testing.T) {
	for _, only := range []int{0, 1} {
		s := permitServer{newScriptServer(t)}
		s.take(permitValue, 1, only)
		s.do("PEXPIRE", permitName+"#1", 2*pairTTL)
		s.take(permitValue, 1, only)
		assert.Greater(t, s.pttl(permitName+"#1"), pairTTL*time.Millisecond, "as the extension said")
		s.do("PEXPIRE", permitName+"#1", pairTTL/2) // the grace of a hand-over
		s.take(permitValue, 1, only)
		assert.Greater(t, s.pttl(permitName+"#1"), pairTTL/2*time.Millisecond, "the full TTL")
	}
}

func TestTheNumberOfPermitsOutlivesEachGrant(t *testing.T) {
	s := permitServer{newScriptServer(t)}
	s.take(permitValue, 1, 0)
	s.do("PEXPIRE", permitKey, pairTTL)
	s.take(pairForm+"b", 1, 0)
	assert.Greater(t, s.pttl(permitKey), 24*time.Hour, "after another grant")
	s.do("PEXPIRE", permitKey, pairTTL)
	s.take(permitValue, 1, 1)
	assert.Greater(t, s.pttl(permitKey), 24*time.Hour, "after the same grant")
}

func TestAPermitLeavesOtherPeoplesKeysAlone(t *testing.T) {
	t.Run("a slot of another type is taken", func(t *testing.T) {
		s := permitServer{newScriptServer(t)}
		s.do("RPUSH", permitName+"#1", "x")
		got := s.take(permitValue, 1, 0).([]any)
		assert.EqualValues(t, 2, got[0])
		assert.EqualValues(t, 0, s.take(permitValue, 1, 1).([]any)[0])
		assert.Equal(t, "list", s.do("TYPE", permitName+"#1"))
	})
	t.Run("a number that nobody can read changes only while no slot is taken", func(t *testing.T) {
		for _, text := range []string{"x", "0", "-1", "2000", "nan", ""} {
			s := permitServer{newScriptServer(t)}
			s.do("SET", permitKey, text)
			s.do("SET", permitName+"#1000", "x")
			assert.Equal(t, []any{int64(-1), int64(1024)}, s.take(permitValue, 1, 0), "%q", text)
			s.do("DEL", permitName+"#1000")
			assert.EqualValues(t, 1, s.take(permitValue, 1, 0).([]any)[0], "%q", text)
			assert.Equal(t, []byte("2"), s.do("GET", permitKey))
		}
	})
	t.Run("a number of another type is an error", func(t *testing.T) {
		s := permitServer{newScriptServer(t)}
		s.do("RPUSH", permitKey, "2")
		_, err := s.conn.Do("EVAL", s.takeArgs(permitValue, 1, 0)...)
		assert.ErrorContains(t, err, "WRONGTYPE")
		assert.EqualValues(t, 0, s.do("EXISTS", permitName+"#1"))
	})
}

func TestAPermitThatFailsLeavesNoKeyBehind(t *testing.T) {
	for command, fencing := range map[string][]any{"time": {time.Now().UnixMicro(), pairLife}, "pexpire": nil} {
		s := permitServer{newScriptServer(t)}
		s.do("ACL", "SETUSER", "narrow", "reset", "on", "nopass", "~*", "&*", "+@all", "-"+command)
		for _, only := range []int{0, 1} {
			s.do("AUTH", "narrow", "")
			_, err := s.conn.Do("EVAL", s.takeArgs(permitValue, 1, only, fencing...)...)
			require.Error(t, err, command)
			s.do("AUTH", "default", "")
			assert.EqualValues(t, 0, s.do("EXISTS", permitName+"#1", permitName+"#2"), command)
			s.take(permitValue, 1, only)
			s.do("AUTH", "narrow", "")
			_, err = s.conn.Do("EVAL", s.takeArgs(permitValue, 1, only, fencing...)...)
			require.Error(t, err, command)
			s.do("AUTH", "default", "")
			assert.EqualValues(t, 1, s.do("EXISTS", permitName+"#1"), "%s: a vote that was counted stays", command)
			s.do("DEL", permitName+"#1")
		}
	}
}

func TestTheMessageAboutAHandOverNamesTheSlot(t *testing.T) {
	server := redistest.StartOne(t)
	listener, err := redis.Dial("tcp", server.Addr())
	require.NoError(t, err)
	defer listener.Close()
	messages := redis.PubSubConn{Conn: listener}
	require.NoError(t, messages.Subscribe(WakeChannel+"alive"))
	require.IsType(t, redis.Subscription{}, messages.Receive())
	conn, err := redis.Dial("tcp", server.Addr())
	require.NoError(t, err)
	defer conn.Close()
	s := permitServer{&scriptServer{t, conn}}
	s.take(permitValue, 1, 0)
	s.take(pairForm+"b", 1, 0)
	waiter := pairForm + " # two words: and signs"
	s.do("EVAL", bare(permitWaits), 1, permitName, waiter, pairTTL, 2, permitLife.Milliseconds(), 1, "alive", 0, maxWaiting)
	assert.EqualValues(t, 2, s.do("EVAL", bare(permitReleases), 1, permitName, pairForm+"b", pairGrace/2, 2, 0))
	message, ok := messages.Receive().(redis.Message)
	require.True(t, ok)
	slot, value, _ := strings.Cut(string(message.Data), " ")
	assert.Equal(t, "#2", slot)
	assert.Equal(t, waiter, value)
	assert.LessOrEqual(t, s.pttl(permitName+"#2"), pairGrace/2*time.Millisecond, "for the grace")
}
