package wire

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/redquorum/redquorum/internal/redistest"
)

// batchCase is a script and its batch, with what a call of it has for arguments.
type batchCase struct {
	single []string
	batch  string
	args   func(t *rapid.T, value string) []any
}

func batchCases() map[string]batchCase {
	near := func(t *rapid.T) int64 {
		off := rapid.SampledFrom([]int64{0, 0, -3_600_000_000, 3_600_000_000, 2_000_000, 25_000_000}).Draw(t, "off")
		return batchTime + off + rapid.Int64Range(-2, 2).Draw(t, "timestamp")
	}
	return map[string]batchCase{
		"release": {releases, releaseBatch, func(_ *rapid.T, value string) []any { return []any{value, pairGrace} }},
		"acquire": {acquires, acquireBatch, func(t *rapid.T, value string) []any { return []any{value, pairTTL, near(t), pairLife} }},
		"extend":  {[]string{extendSource}, extendSource, func(_ *rapid.T, value string) []any { return []any{value, pairTTL} }},
		"raise":   {raises, raiseBatch, func(t *rapid.T, value string) []any { return []any{value, near(t), pairLife} }},
		"verify":  {[]string{verifySource}, verifyBatchSource, func(_ *rapid.T, value string) []any { return []any{value} }},
	}
}

// batchTime is about the server's time. It is rounded, so that counters are often the same.
var batchTime = time.Now().Truncate(5 * time.Second).UnixMicro()

// batchPair is two databases of a server, which are given the same keys. The calls of a batch are
// run one by one on the first, and at once on the second.
type batchPair struct {
	conn redis.Conn
	keys []string
}

func (p *batchPair) do(t *rapid.T, db int, command string, args ...any) any {
	if _, err := p.conn.Do("SELECT", db); err != nil {
		t.Fatal(err)
	}
	reply, err := p.conn.Do(command, args...)
	if err != nil {
		return err
	}
	return reply
}

// prepare writes locks, wait lists, counters, notes, and what is none of these.
func (p *batchPair) prepare(t *rapid.T) {
	both := func(command string, args ...any) {
		for db := range 2 {
			p.do(t, db, command, args...)
		}
	}
	both("FLUSHDB")
	value := func() string { return rapid.SampledFrom(pairValues).Draw(t, "value") }
	for _, key := range p.keys {
		switch rapid.IntRange(0, 19).Draw(t, "held") {
		case 0:
		case 1:
			both("ZADD", key, 1, "x")
		case 2: // being adopted
			both("SET", key, pairValues[0], "PX", pairTTL)
			both("SET", "redquorum:adopt:"+key+":"+pairValues[0], value(), "PX", pairTTL)
		default:
			both("SET", key, rapid.SampledFrom(pairValues[:2]).Draw(t, "value"), "PX", pairTTL)
		}
		if rapid.IntRange(0, 19).Draw(t, "sign") == 0 {
			both("RPUSH", "redquorum:waits:"+key, "x")
		}
		for range max(rapid.IntRange(-4, 2).Draw(t, "waiters"), 0) {
			waiter := value()
			both("ZADD", "redquorum:wait:"+key, rapid.IntRange(1, 9).Draw(t, "since"), pairProcess(waiter)+":"+waiter)
			both("SET", "redquorum:waits:"+key, "")
		}
		switch rapid.IntRange(0, 9).Draw(t, "counter") {
		case 0, 1, 2, 3:
			both("SET", fenceKey+key, batchTime+rapid.Int64Range(-2, 2).Draw(t, "counter"))
		case 4:
			both("SET", fenceKey+key, batchTime+3_600_000_000)
		case 5:
			both("SET", fenceKey+key, "no number")
		case 6:
			both("ZADD", fenceKey+key, 1, "x")
		}
	}
}

// kept returns what a database has. Counters that began again do so by the clock.
func (p *batchPair) kept(t *rapid.T, db int) string {
	var b strings.Builder
	keys, err := redis.Strings(p.do(t, db, "KEYS", "*"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range slices.Sorted(slices.Values(keys)) {
		text, err := redis.String(p.do(t, db, "GET", key), nil)
		if err != nil {
			text = fmt.Sprintf("%q", p.do(t, db, "DUMP", key))
		}
		ttl, err := redis.Int64(p.do(t, db, "PTTL", key), nil)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s %s, %d s\n", key, aboutNow(text), (ttl+5000)/10000*10)
	}
	return b.String()
}

// aboutNow replaces a number that a script took from the server's clock, not from a call.
func aboutNow(text string) string {
	n, err := strconv.ParseInt(text, 10, 64)
	if off := ((n-batchTime)%1_000_000 + 1_000_000) % 1_000_000; err != nil || off < 20 || off > 999_980 {
		return text
	}
	return fmt.Sprint("by the clock +", (n-time.Now().UnixMicro()+5_000_000)/20_000_000)
}

func inReply(reply any) string {
	switch reply := reply.(type) {
	case []any: // of an extension
		return inReply(reply[0])
	case string: // likewise
		return strings.Replace(reply, allExtended, "1", 1)
	case redis.Error:
		words, _, _ := strings.Cut(string(reply), " script: ") // and where it failed
		return words
	case []byte:
		return aboutNow(string(reply))
	default:
		return fmt.Sprint(reply)
	}
}

// Running calls together does what running them one by one does, whatever the keys hold.
func TestABatchDoesWhatItsCallsDo(t *testing.T) {
	server := redistest.StartOne(t)
	conn, err := redis.Dial("tcp", server.Addr())
	require.NoError(t, err)
	defer conn.Close()
	listen(t, server)
	for name, test := range batchCases() {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				p := &batchPair{conn: conn, keys: []string{"a", "b", "c", "d", "e"}[:rapid.IntRange(2, 5).Draw(t, "keys")]}
				p.prepare(t)
				var singles []string
				together := []any{bare([]string{test.batch}), len(p.keys)}
				var args []any
				for _, key := range p.keys {
					own := test.args(t, rapid.SampledFrom(pairValues[:2]).Draw(t, "caller"))
					singles = append(singles, inReply(p.do(t, 0, "EVAL", append([]any{bare(test.single), 1, key}, own...)...)))
					together, args = append(together, key), append(args, own...)
				}
				reply := p.do(t, 1, "EVAL", append(together, args...)...)
				replies, several := reply.([]any)
				if !several { // one answer for all
					replies = slices.Repeat([]any{reply}, len(p.keys))
				}
				if len(replies) != len(p.keys) {
					t.Fatalf("the batch returned %v", replies)
				}
				for i, reply := range replies {
					if got := inReply(reply); got != singles[i] {
						t.Fatalf("%s: the batch says %s, the script %s", p.keys[i], got, singles[i])
					}
				}
				if got, want := p.kept(t, 1), p.kept(t, 0); got != want {
					t.Fatalf("the batch left\n%s\nthe scripts\n%s", got, want)
				}
			})
		})
	}
}

// A user who may use MGET in no script, or not one of the keys beside a lock, is served as well.
func TestABatchOfReleasesNeedsNoMoreThanARelease(t *testing.T) {
	s := newScriptServer(t)
	s.do("ACL", "SETUSER", "narrow", "on", "nopass", "~*", "+@all", "-mget")
	s.do("ACL", "SETUSER", "blind", "on", "nopass", "~a", "~b", "+@all")
	for _, user := range []string{"narrow", "blind"} {
		for _, key := range []string{"a", "b"} {
			s.do("SET", key, "mine")
		}
		s.do("AUTH", user, "")
		reply, err := s.run([]string{"a", "b"}, []any{"mine", 50, "mine", 50}, releaseBatch)
		require.NoError(t, err, user)
		assert.Contains(t, []any{int64(1), []any{int64(1), int64(1)}}, reply, user)
		s.do("AUTH", "default", "")
		assert.Equal(t, int64(0), s.do("DBSIZE"))
	}
}
