package wire

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

// foreign is what others may write under any key, by type.
var foreign = [][]any{
	{"SET", "text"},
	{"SET", ""},
	{"SET", "-1"},
	{"SET", "1e300"},
	{"SET", "9007199254740991"},
	{"SET", "nan"},
	{"RPUSH", "1"},
	{"SADD", "1"},
	{"HSET", "a", "1"},
	{"ZADD", 1, "no colon"},
	{"ZADD", 1, ":"},
	{"XADD", "*", "a", "1"},
}

// beside lists the keys beside that of the lock "a".
var beside = []string{
	"redquorum:fence:a", "redquorum:wait:a", "redquorum:waits:a", "redquorum:adopt:a:mine", "redquorum:adopt:a:other",
	"redquorum:others:a", "redquorum:terms:a",
}

// A server is the one on which scripts run, one after the other.
type scriptServer struct {
	t    *testing.T
	conn redis.Conn
}

func newScriptServer(t *testing.T) *scriptServer {
	t.Helper()
	conn, err := redis.Dial("tcp", redistest.StartOne(t).Addr())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, conn.Close()) })
	return &scriptServer{t, conn}
}

func (s *scriptServer) do(command string, args ...any) any {
	s.t.Helper()
	reply, err := s.conn.Do(command, args...)
	require.NoError(s.t, err, "%s %v", command, args)
	return reply
}

// spoil puts something foreign under a key.
func (s *scriptServer) spoil(key string, what []any, expires bool) {
	s.t.Helper()
	s.do("DEL", key)
	s.do(what[0].(string), append([]any{key}, what[1:]...)...)
	if expires {
		s.do("PEXPIRE", key, 1_000_000)
	}
}

func (s *scriptServer) run(keys []string, args []any, sources ...string) (any, error) {
	all := []any{bare(sources), len(keys)}
	for _, key := range keys {
		all = append(all, key)
	}
	return s.conn.Do("EVAL", append(all, args...)...)
}

func (s *scriptServer) get(key string) string {
	s.t.Helper()
	value, err := redis.String(s.conn.Do("GET", key))
	if err != nil && !errors.Is(err, redis.ErrNil) {
		require.NoError(s.t, err)
	}
	return value
}

// inWords formats a reply: texts as they are, and milliseconds rounded to seconds.
func inWords(reply any) string {
	switch reply := reply.(type) {
	case []byte:
		return string(reply)
	case []any:
		var all []string
		for _, one := range reply {
			all = append(all, inWords(one))
		}
		return "[" + strings.Join(all, " ") + "]"
	case int64:
		if reply > 1000 {
			return fmt.Sprintf("%d s", (reply+500)/1000)
		}
	}
	return fmt.Sprint(reply)
}

// A scriptCase is one run of a script on a key "a" that the caller holds, or that is free.
type scriptCase struct {
	name   string
	held   bool // "a" has the value "mine" before
	args   []any
	source []string
	after  string // what "a" has afterwards
	reply  string // how it begins
}

func scriptCases() []scriptCase {
	now := time.Now().UnixMicro()
	return []scriptCase{
		{"acquire", false, []any{"mine", 60000}, acquires, "mine", "1"},
		{"acquire fenced", false, []any{"mine", 60000, now, 600000}, acquires, "mine", ""},
		{"acquire taken", true, []any{"other", 60000, now, 600000}, acquires, "mine", "0"},
		{"wait, and get it", false, []any{"mine", 60000, 50, 1, "p", 0, 100, "anyone", now, 600000}, waits, "mine", ""},
		{"wait, and wait", true, []any{"other", 60000, 50, 1, "p", 0, 100, "anyone", now, 600000}, waits, "mine", "[0 1 60 s 1"},
		{"release", true, []any{"mine", 50}, releases, "", "1"},
		{"release and leave", true, []any{"mine", 50, "p"}, releases, "", "1"},
		{"release another's", true, []any{"other", 50, "p"}, releases, "mine", "0"},
		{"retain", true, []any{"mine", 50, "p", 30000}, retains, "mine", "1"},
		{"retain another's", true, []any{"other", 50, "", 30000}, retains, "mine", "0"},
		{"retain too late", true, []any{"mine", 50, "p", 0}, retains, "", "1"},
		{"extend", true, []any{"mine", 60000}, []string{extendSource}, "mine", "extended"},
		{"join", true, []any{"set", 60000, "mine", now, 600000}, []string{fenceSource, joinSource}, "set", ""},
		{"raise", true, []any{"mine", now, 600000}, raises, "mine", ""},
		{"mend", true, []any{"mine", now, now, 600000}, []string{mendSource}, "mine", "0"},
		{"adopt", true, []any{"mine", "other", 60000, now, 600000}, []string{fenceSource, adoptSource}, "other", ""},
		{"restore", true, []any{"mine", 50}, []string{handOverSource, restoreSource}, "", "1"},
		{"force", true, []any{50}, []string{handOverSource, forceSource}, "", "1"},
		{"inspect", true, nil, inspects, "mine", ""},
		{"record", true, []any{5, "5 mine", 600000, 256}, []string{recordSource}, "mine", "1"},
		{"recorded", true, []any{0, 8}, []string{recordedSource}, "mine", "[mine 60 s ["},
		{"verify", true, []any{"mine"}, []string{verifySource}, "mine", "1"},
	}
}

func TestNoScriptFailsOnWhatOthersWroteBesideALock(t *testing.T) {
	s := newScriptServer(t)
	for _, test := range scriptCases() {
		for _, key := range beside {
			for i, what := range foreign {
				for _, expires := range []bool{false, true} {
					if test.name == "restore" && key == "redquorum:adopt:a:mine" && what[0] == "SET" && expires {
						continue // as good as a note
					}
					where := fmt.Sprintf("%s, %s, %v, expires: %v", test.name, key, what, expires)
					s.do("FLUSHALL")
					s.spoil(key, what, expires)
					if i%2 == 0 { // release and hand-over look at the list
						if key == "redquorum:wait:a" {
							s.do("SET", "redquorum:waits:a", "")
						}
					}
					if test.held {
						s.do("SET", "a", "mine", "PX", 60000)
					}
					reply, err := s.run([]string{"a"}, test.args, test.source...)
					require.NoError(t, err, where)
					assert.True(t, strings.HasPrefix(inWords(reply), test.reply), where)
					assert.Equal(t, test.after, s.get("a"), where)
				}
			}
		}
	}
}

func TestAScriptTouchesNoKeyThatIsNoLock(t *testing.T) {
	s := newScriptServer(t)
	for _, test := range scriptCases() {
		for _, what := range foreign {
			if what[0] == "SET" {
				continue // as good as a foreign lock
			}
			where := fmt.Sprintf("%s, %v", test.name, what)
			s.do("FLUSHALL")
			s.spoil("a", what, false)
			before := s.do("DUMP", "a")
			reply, err := s.run([]string{"a"}, test.args, test.source...)
			if strings.HasPrefix(test.name, "acquire") {
				require.NoError(t, err)
				assert.Equal(t, int64(0), reply, where)
			} else if test.name == "extend" {
				assert.Contains(t, inWords(reply), "WRONGTYPE", where)
			} else {
				require.ErrorContains(t, err, "WRONGTYPE", where)
			}
			assert.Equal(t, before, s.do("DUMP", "a"), where)
			assert.Equal(t, int64(1), s.do("DBSIZE"), where)
		}
	}
}

func TestAReleaseOfASetReleasesWhatIsOurs(t *testing.T) {
	s := newScriptServer(t)
	names := []string{"a", "b", "c"}
	for _, lost := range names {
		s.do("FLUSHALL")
		for _, name := range names {
			s.do("SET", name, "mine")
		}
		s.spoil(lost, []any{"HSET", "a", "1"}, false)
		_, err := s.run(names, []any{"mine", 50}, releases...)
		require.ErrorContains(t, err, "WRONGTYPE")
		assert.Equal(t, int64(1), s.do("DBSIZE"))
		assert.Equal(t, int64(1), s.do("EXISTS", lost))
	}
}

func TestAnAcquisitionThatFailsMidwayLeavesNoKey(t *testing.T) {
	s := newScriptServer(t)
	s.do("ACL", "SETUSER", "narrow", "on", "nopass", "~*", "+@all", "-time")
	s.do("ACL", "SETUSER", "blind", "on", "nopass", "~a", "~b", "+@all")
	for _, user := range []string{"narrow", "blind"} {
		for _, names := range [][]string{{"a"}, {"a", "b"}} {
			s.do("AUTH", user, "")
			_, err := s.run(names, []any{"mine", 60000, time.Now().UnixMicro(), 600000}, acquires...)
			require.Error(t, err, user)
			s.do("AUTH", "default", "")
			assert.Equal(t, int64(0), s.do("DBSIZE"), "%s %v", user, names)
		}
	}
}
