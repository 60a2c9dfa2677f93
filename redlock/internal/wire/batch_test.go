package wire

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock/clocktest"
	"github.com/redquorum/redquorum/internal/fakeredis"
	"github.com/redquorum/redquorum/internal/proof/fuzzed"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

// batchCases are all scripts with a batch, and what a call of it has for arguments.
var batchCases = []struct {
	single []string
	batch  string
	args   func(p *batchPair) []any // behind the value
}{
	{releases, "release_batch", func(*batchPair) []any { return []any{pairMillis} }},
	{[]string{"acquire"}, "acquire_batch", func(p *batchPair) []any { return []any{pairMillis, p.near(), pairLife.Milliseconds()} }},
	{[]string{"extend"}, "extend", func(*batchPair) []any { return []any{pairMillis} }},
	{[]string{"raise"}, "raise_batch", func(p *batchPair) []any { return []any{p.near(), pairLife.Milliseconds()} }},
	{[]string{"verify"}, "verify_batch", func(*batchPair) []any { return nil }},
}

// FuzzBatches checks that batches of any calls, one after the other, return and leave what their
// calls do one by one, whatever the keys hold: on the scripted node, and on a server if there is
// one.
func FuzzBatches(f *testing.F) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 150 {
		seed := make([]byte, 120)
		for i := range seed {
			seed[i] = byte(random.Uint32())
		}
		f.Add(seed)
	}
	servers := []*server{scriptedNode(f)}
	if redistest.Available() {
		servers = append(servers, newServer(f))
	}
	for _, s := range servers {
		s.listen(f)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, s := range servers {
			p := newBatchPair(t, s.conn, fuzzed.New(data))
			for batches := 0; batches == 0 || p.More() && batches < 8; batches++ {
				p.step(p.Below(len(batchCases)), p.some())
			}
		}
	})
}

// scriptedNode starts a node whose time stands still.
func scriptedNode(f *testing.F) *server {
	node := fakeredis.New(clocktest.New(), fakeredis.WithoutCommandLog())
	f.Cleanup(node.Close)
	s := &server{t: f, dial: func() (redis.Conn, error) {
		conn, err := node.Dial(context.Background())
		return redis.NewConn(conn, 0, 0), err
	}}
	s.conn = s.open(f)
	return s
}

// batchPair is two databases of a server, which are given the same keys. The calls of a batch are
// run one by one on the first, and at once on the second.
type batchPair struct {
	*fuzzed.Source
	t    *testing.T
	conn redis.Conn
	db   int // that is selected
	keys []string
	time int64 // the server's, in microseconds, rounded so that counters are often the same
}

// newBatchPair prepares two databases with two to five locks.
func newBatchPair(t *testing.T, conn redis.Conn, from *fuzzed.Source) *batchPair {
	p := &batchPair{Source: from, t: t, conn: conn, db: -1}
	p.keys = []string{"a", "b", "c", "d", "e"}[:2+p.Below(4)]
	now, err := redis.Int64s(p.do(0, []any{"TIME"})[0], nil)
	require.NoError(t, err)
	p.time = now[0] / 5 * 5_000_000
	p.prepare()
	return p
}

// near returns a time of a client. The server's time, which is 0 to 5 s past p.time and goes on,
// takes no limit of the node past any of them between the two runs: see offsets.
func (p *batchPair) near() int64 {
	return p.time + offsets[p.Below(len(offsets))] + int64(p.Below(5)-2)
}

// offsets are how far from p.time the clocks of clients are. The limits are 10 s behind and ahead
// of the server's time, which is up to 15 s past p.time; the 20 s that a counter follows, up to
// 25 s past it; and the minute from which a lost counter begins.
var offsets = []int64{0, 0, -3_600_000_000, 3_600_000_000, 7_500_000, 17_500_000, 40_000_000}

// some returns one of the keys or more, in any order.
func (p *batchPair) some() (some []string) {
	all := slices.Clone(p.keys)
	for range 1 + p.Below(len(p.keys)) {
		i := p.Below(len(all))
		some, all = append(some, all[i]), append(all[:i], all[i+1:]...)
	}
	return some
}

// do sends commands to a database, in one trip. Errors are replies.
func (p *batchPair) do(db int, commands ...[]any) []any {
	if p.db != db {
		p.db = db
		return p.do(db, append([][]any{{"SELECT", db}}, commands...)...)[1:]
	}
	for _, words := range commands {
		require.NoError(p.t, p.conn.Send(words[0].(string), words[1:]...))
	}
	replies, err := redis.Values(p.conn.Do(""))
	require.NoError(p.t, err)
	return replies
}

// prepare writes locks, wait lists, counters, notes, and what is none of these.
func (p *batchPair) prepare() {
	var commands [][]any
	both := func(words ...any) { commands = append(commands, words) }
	both("FLUSHDB")
	value := func() string { return pairValues[p.Below(len(pairValues))] }
	for _, key := range p.keys {
		switch p.Below(20) {
		case 0:
		case 1:
			both("ZADD", key, 1, "x")
		case 2: // being adopted
			both("SET", key, pairValues[0], "PX", pairMillis)
			both("SET", adoptionNote+key+":"+pairValues[0], value(), "PX", pairMillis)
		default:
			both("SET", key, pairValues[p.Below(2)], "PX", pairMillis)
		}
		if p.Below(20) == 0 {
			both("ZADD", "redquorum:waits:"+key, 1, "x")
		}
		for range max(p.Below(7)-4, 0) {
			waiter := value()
			both("ZADD", waitKey+key, 1+p.Below(9), place(waiter))
			both("SET", "redquorum:waits:"+key, "")
		}
		switch p.Below(10) {
		case 0, 1, 2, 3:
			both("SET", fenceKey+key, p.time+int64(p.Below(5)-2))
		case 4:
			both("SET", fenceKey+key, p.time+3_600_000_000)
		case 5:
			both("SET", fenceKey+key, "no number")
		case 6:
			both("ZADD", fenceKey+key, 1, "x")
		}
	}
	for db := range 2 {
		for _, reply := range p.do(db, commands...) {
			require.NotImplements(p.t, (*error)(nil), reply)
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
func (p *batchPair) kept(reply any) []string {
	keys, err := redis.Values(reply, nil)
	require.NoError(p.t, err)
	var kept []string
	for _, entry := range keys {
		var key, text string
		var ttl int64
		_, err := redis.Scan(entry.([]any), &key, &text, &ttl)
		require.NoError(p.t, err)
		kept = append(kept, fmt.Sprintf("%s %s, %d s", key, p.aboutNow(text), (ttl+9999)/10_000*10))
	}
	slices.Sort(kept)
	return kept
}

// aboutNow replaces a number that a script took from the server's clock, not from a call.
func (p *batchPair) aboutNow(text string) string {
	n, err := strconv.ParseInt(text, 10, 64)
	given := func(off int64) bool { return n > p.time+off-20 && n < p.time+off+20 }
	if err != nil || n < p.time/2 || slices.ContainsFunc(offsets, given) {
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
func (p *batchPair) step(number int, keys []string) {
	test := &batchCases[number]
	var one [][]any
	together := []any{"EVAL", code(test.batch), len(keys)}
	var args []any
	for _, key := range keys {
		value := pairValues[p.Below(2)]
		own := append([]any{value}, test.args(p)...)
		one = append(one, append([]any{"EVAL", code(test.single...), 1, key}, own...))
		together, args = append(together, key), append(args, own...)
	}
	singles := p.do(0, append(one, askKept)...)
	both := p.do(1, append(together, args...), askKept)
	replies, several := both[0].([]any)
	if !several { // one answer for all
		replies = slices.Repeat(both[:1], len(keys))
	}
	require.Len(p.t, replies, len(keys))
	for i, reply := range replies {
		require.Equal(p.t, p.inReply(singles[i]), p.inReply(reply), "what the script (expected) and the batch say of %s", keys[i])
	}
	require.Equal(p.t, p.kept(singles[len(keys)]), p.kept(both[1]), "what the scripts (expected) and the batch leave")
}
