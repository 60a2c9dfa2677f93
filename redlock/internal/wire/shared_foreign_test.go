package wire

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// sharedBeside lists the keys beside that of the lock "a" which shared locks use, too.
var sharedBeside = append([]string{"redquorum:readers:a", "redquorum:intent:a"}, beside...)

// sharedCase is one run of a script on a key "a".
type sharedCase struct {
	name   string
	before string // what "a" has: nothing, the marker with the reader "mine", or a writer's value
	args   []any
	source []string
}

func sharedCases() []sharedCase {
	now := time.Now().UnixMicro()
	return []sharedCase{
		{"acquire", "", []any{"mine", 60000, "", "p", now, 600000}, sharedAcquires},
		{"acquire again", "marker", []any{"mine", 60000, "", "p", now, 600000}, sharedAcquires},
		{"acquire beside a reader", "marker", []any{"other", 60000, "", "p", now, 600000}, sharedAcquires},
		{"acquire beside a writer", "writer", []any{"mine", 60000, "1", "p", now, 600000}, sharedAcquires},
		{"wait, and read", "", []any{"mine", 60000, 50, "1", "p", 0, 100, "anyone", now, 600000}, sharedWaits},
		{"wait, and read with others", "marker", []any{"other", 60000, 50, "1", "p", 0, 100, "", now, 600000}, sharedWaits},
		{"wait beside a writer", "writer", []any{"mine", 60000, 50, "", "p", 0, 100, "others", now, 600000}, sharedWaits},
		{"extend", "marker", []any{"mine", "+60000"}, sharedExtends},
		{"heal", "", []any{"mine", "+60000"}, sharedExtends},
		{"extend beside a writer", "writer", []any{"mine", "+60000"}, sharedExtends},
		{"extend as a writer", "writer", []any{"writer's", 60000}, sharedExtends},
		{"release", "marker", []any{"mine", 50}, sharedReleases},
		{"release and leave", "marker", []any{"mine", 50, "p"}, sharedReleases},
		{"release beside a writer", "writer", []any{"mine", 50, "p"}, sharedReleases},
		{"verify", "writer", []any{"mine"}, sharedVerifies},
		{"inspect", "marker", nil, inspects},
		{"raise", "marker", []any{"mine", now, 600000}, sharedRaises},
		{"announce", "writer", []any{"mine", 60000, 2000, now, 600000}, announces},
		{"announce, and get it", "", []any{"mine", 60000, 2000, now, 600000}, announces},
		{"wait to write", "marker", []any{"writer", 60000, 50, 1, "p", 0, 100, "", now, 600000, 2000}, waits},
		{"leave as a writer", "marker", []any{"writer", 50, "p", "announced"}, releases},
	}
}

func (s *scriptServer) marker() string {
	s.t.Helper()
	reply, err := s.run(nil, nil, sharedSource, "return marker")
	require.NoError(s.t, err)
	return string(reply.([]byte))
}

// prepare puts "a" into the state before a case. What was spoiled stays so.
func (s *scriptServer) prepare(before, marker, spoiled string) {
	s.t.Helper()
	switch before {
	case "marker":
		s.do("SET", "a", marker, "PX", 60000)
		if spoiled != "redquorum:readers:a" {
			s.do("ZADD", "redquorum:readers:a", time.Now().UnixMilli()+60000, "mine")
		}
	case "writer":
		s.do("SET", "a", "writer's", "PX", 60000)
	}
}

func TestNoSharedScriptFailsOnWhatOthersWroteBesideALock(t *testing.T) {
	s := newScriptServer(t)
	marker := s.marker()
	for _, test := range sharedCases() {
		for _, key := range sharedBeside {
			for _, what := range foreign {
				where := fmt.Sprintf("%s, %s, %v", test.name, key, what)
				s.do("FLUSHALL")
				s.spoil(key, what, false)
				s.prepare(test.before, marker, key)
				_, err := s.run([]string{"a"}, test.args, test.source...)
				require.NoError(t, err, where)
				switch after := s.get("a"); {
				case test.before == "writer":
					assert.Equal(t, "writer's", after, where)
				case after == marker:
					left := s.do("PTTL", "a").(int64)
					assert.True(t, 0 < left && left <= 60000, "%s: %d ms left", where, left)
				}
			}
		}
	}
}

func TestASharedScriptTouchesNoKeyThatIsNoLock(t *testing.T) {
	s := newScriptServer(t)
	for _, test := range sharedCases() {
		for _, what := range foreign {
			if what[0] == "SET" {
				continue // as good as a foreign lock
			}
			where := fmt.Sprintf("%s, %v", test.name, what)
			s.do("FLUSHALL")
			s.spoil("a", what, false)
			before := s.do("DUMP", "a")
			reply, err := s.run([]string{"a"}, test.args, test.source...)
			if text := inWords(reply); strings.HasPrefix(text, "[") { // an error for each key
				assert.Contains(t, text, "WRONGTYPE", where)
			} else {
				require.ErrorContains(t, err, "WRONGTYPE", where)
			}
			assert.Equal(t, before, s.do("DUMP", "a"), where)
			assert.Equal(t, int64(1), s.do("DBSIZE"), where)
		}
	}
}

func TestASharedAcquisitionThatMayNotDoAllLeavesNoKey(t *testing.T) {
	s := newScriptServer(t)
	s.do("ACL", "SETUSER", "narrow", "on", "nopass", "~*", "+@all", "-time")
	s.do("ACL", "SETUSER", "blind", "on", "nopass", "~a", "+@all")
	s.do("ACL", "SETUSER", "endless", "on", "nopass", "~*", "+@all", "-pexpireat")
	for _, user := range []string{"narrow", "blind", "endless"} {
		for _, test := range []sharedCase{
			{args: []any{"mine", 60000, "", "p"}, source: sharedAcquires},
			{args: []any{"mine", 60000, 50, "1", "p", 0, 100, ""}, source: sharedWaits},
			{args: []any{"mine", "+60000"}, source: sharedExtends},
		} {
			s.do("AUTH", user, "")
			reply, err := s.run([]string{"a"}, test.args, test.source...)
			if answers, ok := reply.([]any); ok { // of each key
				assert.IsType(t, []byte{}, answers[0], user)
			} else {
				require.Error(t, err, user)
			}
			s.do("AUTH", "default", "")
			assert.Equal(t, int64(0), s.do("EXISTS", "a"), user)
		}
	}
}

// Beside what a mutex needs, readers need two commands and two keys.
func TestTheACLOfTheScriptsForReaders(t *testing.T) {
	s := newScriptServer(t)
	s.do("ACL", "SETUSER", "app", "on", "nopass", "~a", "~redquorum:wait:a", "~redquorum:waits:a", "~redquorum:others:a",
		"~redquorum:fence:a", "~redquorum:adopt:a:*", "~redquorum:readers:a", "~redquorum:intent:a", "&redquorum:wake:*", "-@all",
		"+eval", "+set", "+get", "+del", "+exists", "+pexpire", "+pttl", "+publish", "+pubsub|numsub", "+zadd", "+zrem",
		"+zcard", "+zscore", "+zrange", "+zpopmin", "+time", "+pexpireat", "+zremrangebyscore")
	marker := s.marker()
	for _, test := range sharedCases() {
		s.do("FLUSHALL")
		s.do("ZADD", "redquorum:wait:a", 1, "+p:another", 2, "p:third")
		s.prepare(test.before, marker, "")
		s.do("ACL", "LOG", "RESET")
		s.do("AUTH", "app", "")
		_, err := s.run([]string{"a"}, test.args, test.source...)
		s.do("AUTH", "default", "")
		require.NoError(t, err, test.name)
		assert.Empty(t, s.do("ACL", "LOG"), test.name)
	}
}

// Another library's clients see a key that is taken, and cannot delete it. They get it when the
// last reader is gone.
func TestOtherLibrariesRespectReaders(t *testing.T) {
	s := newScriptServer(t)
	const compareAndDelete = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"
	for _, reader := range []string{"one", "two"} {
		reply, err := s.run([]string{"a"}, []any{reader, 60000, "", ""}, sharedAcquires...)
		require.NoError(t, err)
		require.Equal(t, int64(1), reply)
	}
	for _, reader := range []string{"one", "two"} {
		assert.Nil(t, s.do("SET", "a", "theirs", "NX", "PX", 60000))
		reply, err := s.run([]string{"a"}, []any{"theirs"}, compareAndDelete)
		require.NoError(t, err)
		assert.Equal(t, int64(0), reply)
		reply, err = s.run([]string{"a"}, []any{reader, 50}, sharedReleases...)
		require.NoError(t, err)
		assert.Equal(t, int64(1), reply)
	}
	assert.Equal(t, "OK", s.do("SET", "a", "theirs", "NX", "PX", 60000))
	reply, err := s.run([]string{"a"}, []any{"three", 60000, "1", ""}, sharedAcquires...)
	require.NoError(t, err)
	assert.Equal(t, int64(0), reply)
}
