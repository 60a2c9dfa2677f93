package wire

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

// A chooser draws what a test of batches does.
type chooser interface {
	Below(n int) int // 0 to n-1
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// rapidChooser shrinks what fails.
type rapidChooser struct{ *rapid.T }

func (c rapidChooser) Below(n int) int { return rapid.IntRange(0, n-1).Draw(c.T, "choice") }

// batchCase is a script and its batch, with what a call of it has for arguments.
type batchCase struct {
	single []string
	batch  string
	args   func(t chooser, p *batchPair, value string) []any
}

// batchCases are all scripts with a batch. They are in a slice: what is drawn must not be random.
var batchCases = []struct {
	name string
	batchCase
}{
	{"release", batchCase{releases, releaseBatch, func(_ chooser, _ *batchPair, value string) []any {
		return []any{value, pairGrace}
	}}},
	{"acquire", batchCase{acquires, acquireBatch, func(t chooser, p *batchPair, value string) []any {
		return []any{value, pairTTL, p.near(t), pairLife}
	}}},
	{"extend", batchCase{[]string{extendSource}, extendSource, func(_ chooser, _ *batchPair, value string) []any {
		return []any{value, pairTTL}
	}}},
	{"raise", batchCase{raises, raiseBatch, func(t chooser, p *batchPair, value string) []any {
		return []any{value, p.near(t), pairLife}
	}}},
	{"verify", batchCase{[]string{verifySource}, verifyBatchSource, func(_ chooser, _ *batchPair, value string) []any {
		return []any{value}
	}}},
}

// batchPair is two databases of a server, which are given the same keys. The calls of a batch are
// run one by one on the first, and at once on the second.
type batchPair struct {
	conn redis.Conn
	db   int // that is selected
	keys []string
	time int64 // the server's, in microseconds, rounded so that counters are often the same
}

// newBatchPair prepares two databases with two to five locks.
func newBatchPair(t chooser, conn redis.Conn) *batchPair {
	p := &batchPair{conn: conn, db: -1, keys: []string{"a", "b", "c", "d", "e"}[:2+t.Below(4)]}
	now, err := redis.Int64s(p.do(t, 0, []any{"TIME"})[0], nil)
	if err != nil {
		t.Fatal(err)
	}
	p.time = now[0] / 5 * 5_000_000
	p.prepare(t)
	return p
}

// near returns a time of a client.
func (p *batchPair) near(t chooser) int64 {
	off := []int64{0, 0, -3_600_000_000, 3_600_000_000, 2_000_000, 25_000_000}[t.Below(6)]
	return p.time + off + int64(t.Below(5)-2)
}

// do sends commands to a database, in one trip. Errors are replies.
func (p *batchPair) do(t chooser, db int, commands ...[]any) []any {
	if p.db != db {
		p.db = db
		commands = append([][]any{{"SELECT", db}}, commands...)
		return p.do(t, db, commands...)[1:]
	}
	for _, words := range commands {
		if err := p.conn.Send(words[0].(string), words[1:]...); err != nil {
			t.Fatal(err)
		}
	}
	replies, err := redis.Values(p.conn.Do(""))
	if err != nil {
		t.Fatal(err)
	}
	return replies
}

// prepare writes locks, wait lists, counters, notes, and what is none of these.
func (p *batchPair) prepare(t chooser) {
	var commands [][]any
	both := func(words ...any) { commands = append(commands, words) }
	both("FLUSHDB")
	value := func() string { return pairValues[t.Below(len(pairValues))] }
	for _, key := range p.keys {
		switch t.Below(20) {
		case 0:
		case 1:
			both("ZADD", key, 1, "x")
		case 2: // being adopted
			both("SET", key, pairValues[0], "PX", pairTTL)
			both("SET", "redquorum:adopt:"+key+":"+pairValues[0], value(), "PX", pairTTL)
		default:
			both("SET", key, pairValues[t.Below(2)], "PX", pairTTL)
		}
		if t.Below(20) == 0 {
			both("ZADD", "redquorum:waits:"+key, 1, "x")
		}
		for range max(t.Below(7)-4, 0) {
			waiter := value()
			both("ZADD", "redquorum:wait:"+key, 1+t.Below(9), pairProcess(waiter)+":"+waiter)
			both("SET", "redquorum:waits:"+key, "")
		}
		switch t.Below(10) {
		case 0, 1, 2, 3:
			both("SET", fenceKey+key, p.time+int64(t.Below(5)-2))
		case 4:
			both("SET", fenceKey+key, p.time+3_600_000_000)
		case 5:
			both("SET", fenceKey+key, "no number")
		case 6:
			both("ZADD", fenceKey+key, 1, "x")
		}
	}
	for db := range 2 {
		for _, reply := range p.do(t, db, commands...) {
			if err, failed := reply.(error); failed {
				t.Fatal(err)
			}
		}
	}
}

// askKept asks for each key with its value or its members, and its time to live.
var askKept = []any{"EVAL", `
local kept = {}
for i, key in ipairs(redis.call('KEYS', '*')) do
  local value = redis.pcall('GET', key)
  if type(value) == 'table' then
    value = table.concat(redis.call('ZRANGE', key, 0, -1, 'WITHSCORES'), ' ')
  end
  kept[i] = { key, value, redis.call('PTTL', key) }
end
return kept`, 0}

// kept reads the answer to askKept. Counters that began again do so by the clock.
func (p *batchPair) kept(t chooser, reply any) string {
	keys, err := redis.Values(reply, nil)
	if err != nil {
		t.Fatal(err)
	}
	var kept []string
	for _, entry := range keys {
		var key, text string
		var ttl int64
		if _, err := redis.Scan(entry.([]any), &key, &text, &ttl); err != nil {
			t.Fatal(err)
		}
		kept = append(kept, fmt.Sprintf("%s %s, %d s", key, p.aboutNow(text), (ttl+5000)/10000*10))
	}
	slices.Sort(kept)
	return strings.Join(kept, "\n")
}

// aboutNow replaces a number that a script took from the server's clock, not from a call.
func (p *batchPair) aboutNow(text string) string {
	n, err := strconv.ParseInt(text, 10, 64)
	if off := ((n-p.time)%1_000_000 + 1_000_000) % 1_000_000; err != nil || off < 20 || off > 999_980 {
		return text
	}
	// A client's clock was clamped to within 10 s, or the counter began again a minute ahead.
	return fmt.Sprint("by the clock +", (n-p.time+11_000_000)/20_000_000)
}

func (p *batchPair) inReply(reply any) string {
	switch reply := reply.(type) {
	case []any: // of an extension
		return p.inReply(reply[0])
	case string: // likewise
		return strings.Replace(reply, allExtended, "1", 1)
	case redis.Error:
		words, _, _ := strings.Cut(string(reply), " script: ") // and where it failed
		return words
	case []byte:
		return p.aboutNow(string(reply))
	default:
		return fmt.Sprint(reply)
	}
}

// step runs calls of one script for some of the keys, and compares what they return and leave.
func (p *batchPair) step(t chooser, test *batchCase, keys []string) {
	var one [][]any
	together := []any{"EVAL", bare([]string{test.batch}), len(keys)}
	var args []any
	for _, key := range keys {
		own := test.args(t, p, pairValues[t.Below(2)])
		one = append(one, append([]any{"EVAL", bare(test.single), 1, key}, own...))
		together, args = append(together, key), append(args, own...)
	}
	singles := p.do(t, 0, append(one, askKept)...)
	both := p.do(t, 1, append(together, args...), askKept)
	replies, several := both[0].([]any)
	if !several { // one answer for all
		replies = slices.Repeat(both[:1], len(keys))
	}
	if len(replies) != len(keys) {
		t.Fatalf("the batch returned %v", replies)
	}
	for i, reply := range replies {
		if got, want := p.inReply(reply), p.inReply(singles[i]); got != want {
			t.Fatalf("%s: the batch says %s, the script %s", keys[i], got, want)
		}
	}
	if got, want := p.kept(t, both[1]), p.kept(t, singles[len(keys)]); got != want {
		t.Fatalf("the batch left\n%s\nthe scripts\n%s", got, want)
	}
}

// Running calls together does what running them one by one does, whatever the keys hold.
func TestABatchDoesWhatItsCallsDo(t *testing.T) {
	server := redistest.StartOne(t)
	conn, err := redis.Dial("tcp", server.Addr())
	require.NoError(t, err)
	defer conn.Close()
	listen(t, server)
	for _, test := range batchCases {
		t.Run(test.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				c := rapidChooser{t}
				p := newBatchPair(c, conn)
				p.step(c, &test.batchCase, p.keys)
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
