package wire

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// foreign is what others may write under any key, by type.
var foreign = [][]any{
	{"SET", "text"},
	{"SET", ""},
	{"SET", "-1"},
	{"SET", "1e300"},
	{"SET", "9007199254740991"},
	{"SET", "nan"},
	{"SET", "\x00\xff\r\n"},
	{"SET", "1024"}, // a number of permits
	{"SET", "5 5"},  // a turn of others
	{"SET", "1 99999999999999999999"},
	{"SET", "READERSHOLDTHISLOCKTOGETHE|readers"},
	{"RPUSH", "1"},
	{"SADD", "1"},
	{"HSET", "a", "1"},
	{"ZADD", 1, "no colon"},
	{"ZADD", 1, ":"},
	{"ZADD", "inf", "p:mine"},
	{"ZADD", "-inf", "mine"},
	{"ZADD", 9007199254740991, "+p:theirs"},
	{"XADD", "*", "a", "1"},
}

// beside lists the keys beside those of the lock "a", and of the semaphore "a" with its first slot.
var beside = []string{
	"redquorum:fence:a", "redquorum:wait:a", "redquorum:waits:a", "redquorum:adopt:a:mine", "redquorum:adopt:a:other",
	"redquorum:others:a", "redquorum:terms:a", "redquorum:readers:a", "redquorum:intent:a", "redquorum:permits:a",
	"redquorum:permit:wait:a", "redquorum:fence:a#1", "redquorum:adopt:a#1:mine", "redquorum:adopt:a#1:other", LogKey,
	LogKey + ":a", LogKey + ":#names",
}

// besideOf returns those that a script names.
func besideOf(source []string) (keys []string) {
	text := code(source...)
	for _, key := range beside {
		kind := strings.SplitAfter(key, ":")[1] // the last is that of the key of a script
		if source[0] == "forget" || strings.HasPrefix(key, LogKey) || strings.Contains(text, "'redquorum:"+kind) {
			keys = append(keys, key)
		}
	}
	return keys
}

// spoil puts something foreign under a key.
func (s *server) spoil(key string, what []any, expires bool) {
	s.t.Helper()
	s.soon("DEL", key)
	s.soon(what[0].(string), append([]any{key}, what[1:]...)...)
	if expires {
		s.soon("PEXPIRE", key, 1_000_000)
	}
}

// A scriptCase is one run of a script on the key "a".
type scriptCase struct {
	name   string
	before string // what "a" has: nothing, "mine", the marker with the reader "mine", or "theirs"
	args   []any
	source []string
	after  string // what "a" has afterwards
	reply  string // how it begins
}

// on returns the keys that a case is run on, and that of the lock.
func (c scriptCase) on() (keys []string, lock string) {
	switch {
	case strings.HasPrefix(c.source[0], "permit"), strings.HasSuffix(c.name, "a permit"):
		return []string{"a"}, "a#1"
	case c.source[0] == "forget":
		return []string{"redquorum:adopt:a:mine"}, "a"
	case c.name == "log of a name":
		return []string{LogKey + ":a", LogKey + ":#names", "a"}, "a"
	case strings.HasPrefix(c.source[0], "log"):
		return []string{LogKey}, "a"
	}
	return []string{"a"}, "a"
}

func mutexCases() []scriptCase {
	now := time.Now().UnixMicro()
	return []scriptCase{
		{"acquire", "", []any{"mine", 60000}, []string{"acquire"}, "mine", "1"},
		{"acquire fenced", "", []any{"mine", 60000, now, 600000}, []string{"acquire"}, "mine", ""},
		{"acquire taken", "mine", []any{"other", 60000, now, 600000}, []string{"acquire"}, "mine", "0"},
		{"take any", "", []any{"mine", 60000, 50, 0}, []string{"any"}, "mine", "[1 1 0]"},
		{"take any that is taken", "mine", []any{"other", 60000, 50, 0, now, 600000}, []string{"any"}, "mine", "[0 0 0]"},
		{"take a certain one of any", "mine", []any{"mine", 60000, 50, 1, now, 600000}, []string{"any"}, "mine", "[1 "},
		{"wait, and get it", "", []any{"mine", 60000, 50, 1, "p", 0, 100, "anyone", now, 600000}, []string{"wait"}, "mine", ""},
		{"wait, and wait", "mine", []any{"other", 60000, 50, 1, "p", 0, 100, "anyone", now, 600000}, []string{"wait"}, "mine", "[0 1 60 s 1"},
		{"release", "mine", []any{"mine", 50}, releases, "", "1"},
		{"release and leave", "mine", []any{"mine", 50, "p"}, releases, "", "1"},
		{"release another's", "mine", []any{"other", 50, "p"}, releases, "mine", "0"},
		{"retain", "mine", []any{"mine", 50, "p", "announced", 30000}, retains, "mine", "1"},
		{"retain another's", "mine", []any{"other", 50, "", "", 30000}, retains, "mine", "0"},
		{"retain too late", "mine", []any{"mine", 50, "p", "announced", 0}, retains, "", "1"},
		{"extend", "mine", []any{"mine", 60000}, []string{"extend"}, "mine", "extended"},
		{"keep", "mine", []any{"mine", 60000}, []string{"keep"}, "mine", "1"},
		{"keep another's", "theirs", []any{"mine", 60000}, []string{"keep"}, "theirs", "0"},
		{"prefer", "theirs", []any{"mine", "=p:mine", 60000}, []string{"prefer"}, "theirs", "1"},
		{"join", "mine", []any{"set", 60000, "mine", now, 600000}, []string{"join"}, "set", ""},
		{"raise", "mine", []any{"mine", now, 600000}, []string{"raise"}, "mine", ""},
		{"mend", "mine", []any{"mine", now, now, 600000}, []string{"mend"}, "mine", "0"},
		{"adopt", "mine", []any{"mine", "other", 60000, now, 600000}, []string{"adopt"}, "other", ""},
		{"restore", "mine", []any{"mine", 50}, []string{"restore"}, "", "1"},
		{"force", "mine", []any{50}, []string{"force"}, "", "[mine "},
		{"inspect", "mine", nil, []string{"inspect"}, "mine", ""},
		{"record", "mine", []any{5, "5 mine", 600000, 256}, []string{"record"}, "mine", "1"},
		{"recorded", "mine", []any{0, 8}, []string{"recorded"}, "mine", "[mine 60 s ["},
		{"verify", "mine", []any{"mine"}, []string{"verify"}, "mine", "1"},
		{"acquire many", "", []any{"mine", 60000, now, 600000}, []string{"acquire_batch"}, "mine", "["},
		{"release many", "mine", []any{"mine", 50}, []string{"release_batch"}, "", ""},
		{"raise many", "mine", []any{"mine", now, 600000}, []string{"raise_batch"}, "mine", "["},
		{"verify many", "mine", []any{"mine"}, []string{"verify_batch"}, "mine", "[1]"},
		{"forget", "mine", nil, []string{"forget"}, "mine", ""},
		{"log", "mine", []any{"entry", 256, 600000}, []string{"log"}, "mine", "1"},
		{"log of a name", "mine", []any{"entry", 64, 600000, LogKey + ":a", missed, 256}, []string{"log"}, "mine", "1"},
		{"logged", "mine", []any{256}, []string{"logged"}, "mine", "["},
	}
}

// permitCases are of the scripts of semaphores. What is before and after is that of the first slot.
func permitCases() []scriptCase {
	now := time.Now().UnixMicro()
	return []scriptCase{
		{"take", "", []any{"mine", 60000, 50, 1, 1, 0, now, 600000}, []string{"permit"}, "mine", "[1 "},
		{"take again", "mine", []any{"mine", 60000, 50, 2, 1, 1, now, 600000}, []string{"permit"}, "mine", ""},
		{"wait, and take", "", []any{"mine", 60000, 1, 1, "p", 0, 100, now, 600000}, []string{"permit_wait"}, "mine", "[1 "},
		{"wait for a permit", "theirs", []any{"mine", 60000, 2, 1, "p", 0, 100, now, 600000}, []string{"permit_wait"}, "theirs", ""},
		{"give back", "mine", []any{"mine", 50, 2, 0, 1, "p"}, []string{"permit_release"}, "", "1"},
		{"give back another's", "theirs", []any{"mine", 50, 2, 0, 1, "p"}, []string{"permit_release"}, "theirs", "0"},
		{"extend a permit", "mine", []any{"mine", "#1 2 60000"}, extendKinds, "mine", ""},
		{"heal a permit", "", []any{"mine", "!#1 2 60000"}, extendKinds, "mine", "[2]"},
		{"prefer the holder of a permit", "theirs", []any{"mine", "=p:mine", 60000, 1, 2}, []string{"prefer"}, "theirs", "1"},
		{"inspect permits", "mine", nil, []string{"permit_inspect"}, "mine", "["},
	}
}

// sharedCases are of scripts that know readers. Beside foreign keys, a lock of readers may be free
// afterwards, or have the marker with an end.
func sharedCases() []scriptCase {
	now := time.Now().UnixMicro()
	return []scriptCase{
		{"read", "", []any{"mine", 60000, "", "p", now, 600000}, []string{"shared_acquire"}, Marker, "1"},
		{"read again", Marker, []any{"mine", 60000, "", "p", now, 600000}, []string{"shared_acquire"}, Marker, ""},
		{"read beside a reader", Marker, []any{"other", 60000, "", "p", now, 600000}, []string{"shared_acquire"}, Marker, ""},
		{"read beside a writer", "theirs", []any{"mine", 60000, "1", "p", now, 600000}, []string{"shared_acquire"}, "theirs", ""},
		{"wait, and read", "", []any{"mine", 60000, 50, "", "p", 0, 100, "anyone", now, 600000}, []string{"shared_wait"}, Marker, "[1 "},
		{"wait, and read with others", Marker, []any{"other", 60000, 50, "1", "p", 0, 100, "", now, 600000}, []string{"shared_wait"}, Marker, ""},
		{"wait beside a writer", "theirs", []any{"mine", 60000, 50, "", "p", 0, 100, "others", now, 600000}, []string{"shared_wait"}, "theirs", ""},
		{"extend", Marker, []any{"mine", "+60000"}, extendKinds, Marker, ""},
		{"heal", "", []any{"mine", "!+60000"}, extendKinds, Marker, ""},
		{"extend beside a writer", "theirs", []any{"mine", "+60000"}, extendKinds, "theirs", ""},
		{"extend as a writer", "theirs", []any{"theirs", 60000}, extendKinds, "theirs", ""},
		{"release", Marker, []any{"mine", 50}, []string{"shared_release"}, Marker, ""},
		{"release and leave", Marker, []any{"mine", 50, "p"}, []string{"shared_release"}, Marker, ""},
		{"release beside a writer", "theirs", []any{"mine", 50, "p"}, []string{"shared_release"}, "theirs", ""},
		{"verify", "theirs", []any{"mine"}, []string{"shared_verify"}, "theirs", ""},
		{"inspect readers", Marker, nil, []string{"inspect"}, Marker, ""},
		{"raise", Marker, []any{"mine", now, 600000}, []string{"shared_raise"}, Marker, ""},
		{"announce", "theirs", []any{"mine", 60000, 2000, now, 600000}, []string{"announce"}, "theirs", ""},
		{"announce, and get it", "", []any{"mine", 60000, 2000, now, 600000}, []string{"announce"}, "mine", ""},
		{"wait to write", Marker, []any{"writer", 60000, 50, 1, "p", 0, 100, "", now, 600000, 2000}, []string{"wait"}, Marker, ""},
		{"leave as a writer", Marker, []any{"writer", 50, "p", "announced"}, releases, Marker, ""},
	}
}

// prepare puts the lock into the state before a case. What was spoiled stays so.
func (s *server) prepare(test scriptCase, spoiled string) {
	s.t.Helper()
	_, lock := test.on()
	if test.before != "" {
		s.soon("SET", lock, test.before, "PX", 60000)
	}
	if test.before != "" && lock != "a" && spoiled != "redquorum:permits:a" {
		s.soon("SET", "redquorum:permits:a", 2, "PX", 120000)
	}
	if test.before == Marker && spoiled != "redquorum:readers:a" {
		s.soon("ZADD", "redquorum:readers:a", time.Now().UnixMilli()+60000, "mine")
	}
}

// Each script has a case, and each key that a script names is spoiled.
func TestEveryScriptIsTriedBesideEveryKey(t *testing.T) {
	used := []string{"memory", "members"} // which know no lock
	for _, test := range slices.Concat(mutexCases(), sharedCases(), permitCases()) {
		_, names := assemble(test.source...)
		used = append(used, names...)
	}
	entries, err := files.ReadDir("scripts")
	require.NoError(t, err)
	named := regexp.MustCompile(`'(redquorum:(?:[a-z]+:)+)'`)
	for _, entry := range entries {
		name := strings.TrimSuffix(entry.Name(), ".lua")
		assert.Contains(t, used, name, "it has no case")
		for _, match := range named.FindAllStringSubmatch(code(name), -1) {
			assert.True(t, match[1] == WakeChannel || slices.ContainsFunc(beside, func(key string) bool {
				return strings.HasPrefix(key, match[1]+"a")
			}), "%s is not spoiled", match[1])
		}
	}
}

func TestNoScriptFailsOnWhatOthersWroteBesideALock(t *testing.T) {
	s := newServer(t)
	for _, test := range slices.Concat(mutexCases(), sharedCases(), permitCases()) {
		for _, expires := range []bool{false, true} {
			for _, key := range besideOf(test.source) {
				for i := range foreign {
					s.spoilBeside(test, key, i, expires)
				}
			}
		}
	}
}

// spoilBeside runs a script beside a foreign key.
func (s *server) spoilBeside(test scriptCase, key string, i int, expires bool) {
	s.t.Helper()
	what := foreign[i]
	switch {
	case test.name == "restore" && key == "redquorum:adopt:a:mine" && what[0] == "SET" && expires:
		return // as good as a note
	case test.before != "" && key == "redquorum:permits:a" && what[1] == "1024":
		return // as good as a number
	}
	where := fmt.Sprintf("%s, %s, %q, expires: %v", test.name, key, what, expires)
	s.soon("FLUSHALL")
	s.spoil(key, what, expires)
	if i%2 == 0 && key == "redquorum:wait:a" { // release and hand-over look at the list
		s.soon("SET", "redquorum:waits:a", "")
	}
	s.prepare(test, key)
	keys, lock := test.on()
	reply, err := s.run(keys, test.args, test.source...)
	if err != nil && key == "redquorum:permits:a" { // nobody can tell which number is in force
		require.ErrorContains(s.t, err, "others overwrote the number of permits", where)
		assert.Equal(s.t, test.before, s.get(lock), where)
		assert.Contains(s.t, []string{"permit", "permit_wait"}, test.source[0])
		return
	}
	require.NoError(s.t, err, where)
	assert.True(s.t, strings.HasPrefix(inWords(reply), test.reply), "%s: %s", where, inWords(reply))
	after := s.get(lock)
	if test.after != Marker {
		assert.Equal(s.t, test.after, after, where)
	}
	if after != "" {
		left := s.left(lock)
		assert.True(s.t, 0 < left && left <= 60001, "%s: %d ms left", where, left) // a marker outlives its readers
	}
}

func TestAScriptTouchesNoKeyThatIsNoLock(t *testing.T) {
	s := newServer(t)
	goOn := []string{"wait for a permit", "give back", "give back another's", "inspect permits"} // with other slots
	for _, test := range slices.Concat(mutexCases(), sharedCases(), permitCases()) {
		keys, lock := test.on()
		if keys[0] != "a" {
			continue
		}
		for _, what := range foreign {
			if what[0] == "SET" {
				continue // as good as a foreign lock
			}
			where := fmt.Sprintf("%s, %v", test.name, what)
			s.do("FLUSHALL")
			s.spoil(lock, what, false)
			before := s.do("DUMP", lock)
			reply, err := s.run(keys, test.args, test.source...)
			switch {
			case strings.HasPrefix(test.name, "acquire"): // as SET NX answers
				require.NoError(t, err, where)
				assert.Contains(t, []string{"0", "[0]"}, inWords(reply), where)
			case slices.Contains(goOn, test.name):
				require.NoError(t, err, where)
			case err == nil: // an error for each key
				assert.Contains(t, inWords(reply), "WRONGTYPE", where)
			default:
				require.ErrorContains(t, err, "WRONGTYPE", where)
			}
			assert.Equal(t, before, s.do("DUMP", lock), where)
			if lock == "a" {
				assert.Equal(t, int64(1), s.do("DBSIZE"), where)
			}
		}
	}
}

func TestAReleaseOfASetReleasesWhatIsOurs(t *testing.T) {
	s := newServer(t)
	names := []string{"a", "b", "c"}
	for _, lost := range names {
		s.do("FLUSHALL")
		s.do("MSET", "a", "mine", "b", "mine", "c", "mine")
		s.spoil(lost, []any{"HSET", "a", "1"}, false)
		_, err := s.run(names, []any{"mine", 50}, releases...)
		require.ErrorContains(t, err, "WRONGTYPE")
		assert.Equal(t, int64(1), s.do("DBSIZE"))
		assert.Equal(t, int64(1), s.do("EXISTS", lost))
	}
}

// Whatever a user may not do: TIME, the keys beside the lock, or PEXPIREAT.
func TestAnAcquisitionThatFailsMidwayLeavesNoKey(t *testing.T) {
	s := newServer(t)
	for _, rules := range []string{"-time", "~a ~b", "-pexpireat"} {
		for name, test := range map[string]struct {
			keys   []string
			args   []any
			source []string
		}{
			"acquire":     {[]string{"a"}, []any{"mine", 60000, time.Now().UnixMicro(), 600000}, []string{"acquire"}},
			"acquire two": {[]string{"a", "b"}, []any{"mine", 60000, time.Now().UnixMicro(), 600000}, []string{"acquire"}},
			"read":        {[]string{"a"}, []any{"mine", 60000, "", "p"}, []string{"shared_acquire"}},
			"wait":        {[]string{"a"}, []any{"mine", 60000, 50, "1", "p", 0, 100, ""}, []string{"shared_wait"}},
			"heal":        {[]string{"a"}, []any{"mine", "!+60000"}, extendKinds},
		} {
			if rules == "-pexpireat" && strings.HasPrefix(name, "acquire") {
				continue // which do not need it
			}
			s.do("FLUSHALL")
			s.as(rules, func() {
				reply, err := s.run(test.keys, test.args, test.source...)
				if answers, ok := reply.([]any); ok { // of each key
					assert.IsType(t, []byte{}, answers[0], "%s %s", rules, name)
				} else {
					require.Error(t, err, "%s %s", rules, name)
				}
			})
			assert.Equal(t, int64(0), s.do("EXISTS", "a", "b"), "%s %s", rules, name)
		}
	}
}

// Each call of a batch fails with an error of its own, and leaves what the script of one leaves.
func TestABatchThatIsForbiddenSomethingFailsEachCall(t *testing.T) {
	s := newServer(t)
	for _, test := range []struct {
		rule, batch string
		single      []string
		keys        any // that hold the lock, before and after
		args        []any
	}{
		{"-time", "acquire_batch", []string{"acquire"}, int64(0), []any{"mine", 10000, 1_000_000, 10000}},
		{"-del", "release_batch", releases, int64(2), []any{"mine", 50}},
		{"-get", "verify_batch", []string{"verify"}, int64(2), []any{"mine"}},
	} {
		s.do("FLUSHDB")
		if test.keys != int64(0) {
			s.do("MSET", "a", "mine", "b", "mine")
		}
		s.as(test.rule, func() {
			_, err := s.run([]string{"a"}, test.args, test.single...)
			require.Error(t, err, test.rule)
			replies := s.eval([]string{"a", "b"}, slices.Concat(test.args, test.args), test.batch).([]any)
			require.Len(t, replies, 2, test.rule)
			for _, one := range replies {
				assert.IsType(t, redis.Error(""), one, test.rule)
			}
		})
		assert.Equal(t, test.keys, s.do("EXISTS", "a", "b"), test.rule)
	}
}

// What a caller holds is deleted although it may use MGET in no script, or none of the keys beside
// a lock. If it may not delete, it is told so, also beside another's key.
func TestABatchOfReleasesNeedsNoMoreThanARelease(t *testing.T) {
	s := newServer(t)
	both := []any{"mine", 50, "mine", 50}
	for _, rules := range []string{"-mget", "~a ~b"} {
		s.do("MSET", "a", "mine", "b", "mine")
		s.as(rules, func() {
			reply := s.eval([]string{"a", "b"}, both, "release_batch")
			assert.Contains(t, []any{int64(1), []any{int64(1), int64(1)}}, reply, rules)
		})
		assert.Equal(t, int64(0), s.do("DBSIZE"))
	}
	s.do("MSET", "a", "mine", "b", "theirs")
	s.as("-del", func() {
		replies := s.eval([]string{"a", "b"}, both, "release_batch").([]any)
		require.Len(t, replies, 2)
		assert.IsType(t, redis.Error(""), replies[0])
		assert.Equal(t, int64(0), replies[1])
	})
}

// A client takes replies of 1 MiB, and ends the connection, which all of its locks share, at a
// longer one. So what others wrote beside a lock is told up to a length.
func TestWhatOthersWroteBesideALockMakesNoReplyTooLong(t *testing.T) {
	s := newServer(t)
	s.connect(t)
	long := strings.Repeat("7", 2<<20)
	for name, spoil := range map[string]func(){
		"counter":             func() { s.do("SET", "redquorum:fence:a", long) },
		"counter of a slot":   func() { s.do("SET", "redquorum:fence:a#1", long) },
		"waiter":              func() { s.do("ZADD", waitKey+"a", 1, "p:v|"+long) },
		"waiter for a permit": func() { s.do("ZADD", "redquorum:permit:wait:a", 1, "p:v|"+long) },
		"term":                func() { s.do("ZADD", "redquorum:terms:a", 1, "1 "+long) },
		"entry of the log":    func() { s.do("ZADD", LogKey, 1, "old", 2, long, 3, "new") },
		"reader": func() {
			s.do("SET", "a", Marker, "PX", 60000)
			s.do("ZADD", "redquorum:readers:a", time.Now().UnixMilli()+60000, long)
		},
	} {
		s.do("FLUSHALL")
		s.do("SET", "a", "mine", "PX", 60000)
		s.do("SET", "a#1", "mine", "PX", 60000)
		s.do("SET", "redquorum:permits:a", "2")
		spoil()
		holder := s.get("a")
		in, ok := ReadInspect(s.ask(Inspect("a")))
		require.True(t, ok, name)
		assert.Equal(t, holder, in.Value, name)
		assert.Zero(t, in.Fence, name)
		assert.Empty(t, in.Readers, name)
		permits, ok := ReadPermits(s.ask(InspectPermits("a")))
		require.True(t, ok, name)
		assert.Equal(t, []string{"mine", ""}, []string{permits.Slots[0].Value, permits.Slots[1].Value}, name)
		terms, ok := ReadRecorded(s.ask(Recorded("a", 0, 256)))
		require.True(t, ok, name)
		assert.Equal(t, holder, terms.Value, name)
		if log := ReadTexts(s.ask(Logged())); len(log) > 0 {
			assert.Equal(t, []string{"new"}, log, name)
		}
	}
	s.do("FLUSHALL")
	s.do("SET", "redquorum:fence:a", strconv.FormatInt(1<<53-1, 10))
	in, _ := ReadInspect(s.ask(Inspect("a")))
	assert.Equal(t, int64(1<<53-1), in.Fence)
}

// A script that its user may not run to its end leaves nothing behind that never ends.
func TestWhatFailsMidwayLeavesNothingWithoutAnEnd(t *testing.T) {
	s := newServer(t)
	s.listen(t)
	for _, rule := range []string{"-zrange", "-pexpireat", "-zcard"} {
		for _, test := range append(mutexCases(), sharedCases()...) {
			s.do("FLUSHALL")
			s.prepare(test, "")
			s.do("PEXPIRE", "redquorum:readers:a", 60000)
			s.do("ZADD", waitKey+"a", 1, "+alive:"+pairForm+"r")
			s.do("PEXPIRE", waitKey+"a", 60000)
			s.do("SET", "redquorum:waits:a", "", "PX", 60000)
			s.as(rule, func() { _, _ = s.run([]string{"a"}, test.args, test.source...) }) //nolint:errcheck // some fail
			for _, key := range []string{"a", "redquorum:readers:a", "redquorum:terms:a", waitKey + "a"} {
				assert.NotEqual(t, int64(-1), s.left(key), "%s, %s: %s", rule, test.name, key)
			}
		}
	}
	s.do("FLUSHALL")
	s.as("-zcard", func() {
		_, err := s.run([]string{"a"}, []any{5, "5 mine", 600000, 256}, "record")
		require.Error(t, err)
	})
	assert.Equal(t, int64(0), s.do("DBSIZE"))
}
