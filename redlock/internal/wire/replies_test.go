package wire

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/ledger"
	"github.com/redquorum/redquorum/internal/look"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/internal/proof/fuzzed"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
)

// FuzzReplies gives any reply to all functions that read one. They must not panic, must not find a
// vote in what no script says, and must not turn one number into another.
func FuzzReplies(f *testing.F) {
	f.Fuzz(func(t *testing.T, data []byte) {
		checkReply(t, fuzzReply(fuzzed.New(data), 12))
	})
}

// checkReply reads a reply in every way.
func checkReply(t *testing.T, reply any) {
	checkGrants(t, reply)
	checkAnswers(t, reply)
	checkExtended(t, reply)
	checkReports(t, reply)
}

// fuzzReply makes a reply as the parser of replies does, of any kind and depth.
func fuzzReply(s *fuzzed.Source, depth int) any {
	number := func() int64 {
		return s.Number(0, 1, 2, 3, -1, -2, MaxPermits, 1<<53, 1<<53-1, 9_223_372_036_855, -9_223_372_036_855,
			18_446_744_073_710, math.MaxInt64, math.MinInt64)
	}
	switch s.Below(8) {
	case 0:
		return number()
	case 1:
		return []byte(strconv.FormatInt(number(), 10))
	case 2:
		return []byte(s.Text())
	case 3:
		return fuzzed.Pick(s, "OK", allExtended, "PONG", "")
	case 4:
		return redis.Error(s.Text())
	case 5:
		return nil
	default:
		if depth == 0 {
			return nil
		}
		items := make([]any, s.Below(8))
		for i := range items {
			items[i] = fuzzReply(s, depth-1)
		}
		return items
	}
}

const fuzzKeys = 3 // of the requests below, or slots

var fuzzFencing = Fencing{Wall: 1, Life: time.Hour}

// A grantCase is a request whose answers [Grant] reads, and what its script can return.
type grantCase struct {
	request pipeline.Request
	grants  func(reply any) bool // what gives the lock
	refuses func(reply any) bool
	read    func(t *testing.T, reply any, granted bool) // the reader besides Grant; nil for none
}

func grantCases(fencing Fencing) map[string]grantCase {
	keys := []string{"a", "b", "c"}
	semaphore := Semaphore{Key: "a", Permits: fuzzKeys}
	fence := func(reply any) bool { return reply == int64(1) }
	if fencing.Life > 0 {
		fence = isTokenText
	}
	plain := func(request pipeline.Request) grantCase {
		return grantCase{request: request, grants: fence, refuses: func(reply any) bool { return reply == int64(0) }}
	}
	wait := func(request pipeline.Request, keys int64) grantCase {
		return grantCase{
			request: request,
			grants:  func(reply any) bool { return isList(reply, int64(1), fence) },
			refuses: func(reply any) bool {
				taken := func(reply any) bool { n, ok := reply.(int64); return ok && n >= 1 && n <= keys }
				return isList(reply, int64(0), taken, isNumber, isNumber) || isList(reply, int64(0), taken, isNumber, isNumber, isNumber)
			},
			read: func(t *testing.T, reply any, granted bool) { checkWait(t, reply, granted, keys) },
		}
	}
	choice := func(request pipeline.Request, semaphore bool) grantCase {
		return grantCase{
			request: request,
			grants:  func(reply any) bool { return isList(reply, isOneOf, fence, isBits) },
			refuses: func(reply any) bool {
				return isList(reply, int64(0), int64(0), isBits) || semaphore && isList(reply, int64(-1), isPermits)
			},
			read: checkChoice,
		}
	}
	w := &Wait{Keys: keys, Value: "v", Intent: time.Second, Fencing: fencing}
	cases := map[string]grantCase{
		"acquire":        plain(Acquire(&Claim{}, keys, "v", time.Second, fencing)),
		"join":           plain(Join(keys, "v", time.Second, keys, fencing)),
		"adopt":          plain(Adopt("a", "v", "w", time.Second, fencing)),
		"announce":       plain(Announce("a", "v", time.Second, time.Second, fencing)),
		"acquire shared": plain(AcquireShared("a", "v", time.Second, false, "", fencing)),
		"wait":           wait(w.Request(), fuzzKeys),
		"wait shared":    wait(w.SharedRequest(false), 1),
		"take any":       choice((&TakeAny{Keys: keys, Value: "v", Fencing: fencing}).Request(), false),
		"take":           choice((&Take{Semaphore: semaphore, Value: "v", Fencing: fencing}).Request(), true),
		"await permit": {
			request: (&AwaitPermit{Semaphore: semaphore, Value: "v", Fencing: fencing}).Request(),
			grants:  func(reply any) bool { return isList(reply, isOneOf, fence) },
			refuses: func(reply any) bool {
				return isList(reply, int64(0), isNumber, isNumber) || isList(reply, int64(-1), isPermits)
			},
			read: checkPermit,
		},
	}
	if fencing.Life == 0 {
		cases["set"] = grantCase{
			request: Acquire(&Claim{}, keys[:1], "v", time.Second, fencing),
			grants:  func(reply any) bool { return reply == "OK" },
			refuses: func(reply any) bool { return reply == nil },
		}
	} else {
		one := plain(Acquire(&Claim{}, keys[:1], "v", time.Second, fencing))
		one.grants = func(reply any) bool { return reply == "OK" || isTokenText(reply) }
		cases["acquire one"] = one
	}
	return cases
}

var allGrantCases = sync.OnceValue(func() map[Fencing]map[string]grantCase {
	return map[Fencing]map[string]grantCase{{}: grantCases(Fencing{}), fuzzFencing: grantCases(fuzzFencing)}
})

// isList reports whether a reply is a list of this: values, or functions that tell.
func isList(reply any, wants ...any) bool {
	items, _ := reply.([]any)
	if len(items) != len(wants) {
		return false
	}
	for i, want := range wants {
		tells, ok := want.(func(any) bool)
		if ok && !tells(items[i]) || !ok && items[i] != want {
			return false
		}
	}
	return true
}

func isNumber(reply any) bool  { _, ok := reply.(int64); return ok }
func isOneOf(reply any) bool   { n, _ := reply.(int64); return n >= 1 && n <= fuzzKeys }
func isPermits(reply any) bool { n, _ := reply.(int64); return n >= 1 && n <= MaxPermits }

// isTokenText reports whether a reply is the text of a token, as the scripts write it or a client
// gave it.
func isTokenText(reply any) bool {
	text, _ := reply.([]byte)
	n, err := strconv.ParseInt(string(text), 10, 64)
	return err == nil && n >= 1 && n < 1<<53
}

func isBits(reply any) bool {
	text, ok := reply.([]byte)
	return ok && len(text) == fuzzKeys && strings.Trim(string(text), "01") == ""
}

func checkWait(t *testing.T, reply any, granted bool, keys int64) {
	a := ReadWait(reply)
	require.Equal(t, granted, a.Granted)
	if items := reply.([]any); !granted {
		require.Less(t, int64(a.Taken), keys)
		require.GreaterOrEqual(t, a.Taken, 0)
		requireSpan(t, items[2].(int64), a.Left)
	}
}

func checkChoice(t *testing.T, reply any, granted bool) {
	c := ReadChoice(reply)
	require.Equal(t, granted, c.Got > 0 && c.Other == 0)
	require.False(t, granted && c.IsFull())
	for i := 1; i <= fuzzKeys+1; i++ {
		require.False(t, c.IsFree(i) && !c.Knows(i))
		require.False(t, c.IsFree(i) && (c.IsFull() || i > fuzzKeys))
	}
}

func checkPermit(t *testing.T, reply any, granted bool) {
	a := ReadPermit(reply)
	require.Equal(t, granted, a.Slot > 0)
	require.Equal(t, granted, a.Granted)
	require.False(t, granted && a.Number != 0)
	if items := reply.([]any); items[0] == int64(0) {
		requireSpan(t, items[1].(int64), a.Left)
	}
}

// checkGrants reads a reply as an answer to every request for a lock. It is a grant if and only if
// the script of that request grants with it, and is accepted if and only if the script can say it.
func checkGrants(t *testing.T, reply any) {
	for fencing, cases := range allGrantCases() {
		for name, c := range cases {
			grants, refuses := c.grants(reply), c.refuses(reply)
			if accepted := c.request.Accept(reply); accepted != (grants || refuses) {
				t.Fatalf("%s, fencing %v: accepted %v, but grants %v and refuses %v: %#v", name, fencing, accepted, grants, refuses, reply)
			}
			if !grants && !refuses {
				continue
			}
			want := quorum.Refused
			if grants {
				want = quorum.Granted
			}
			require.Equal(t, want, Grant.Vote(reply), name)
			if fence := Fence(reply, fencing.Wall); grants && fencing.Life > 0 {
				require.True(t, fence > 0 && fence < 1<<53, "%s: fence %d", name, fence)
			}
			if c.read != nil {
				c.read(t, reply, grants)
			}
		}
	}
}

// checkAnswers reads a reply as an answer to every other request whose answer is a vote.
func checkAnswers(t *testing.T, reply any) {
	for meaning, votes := range map[Meaning]map[int64]quorum.Vote{
		Released: {1: quorum.Granted, 2: quorum.Handed, 3: quorum.Spared},
		Yes:      {1: quorum.Granted},
		Raised:   {1: quorum.Granted, -1: quorum.Failed},
	} {
		want := quorum.Refused
		n, isNumber := reply.(int64)
		if vote, ok := votes[n]; ok && isNumber {
			want = vote
		}
		require.Equal(t, want, meaning.Vote(reply), "meaning %d: %#v", meaning, reply)
	}
}

// checkExtended reads a reply as an answer to an extension of a lock with two keys, and of one with
// one key.
func checkExtended(t *testing.T, reply any) {
	items, list := reply.([]any)
	require.Equal(t, list || reply == allExtended, isExtended(reply))
	e := ReadExtended(reply)
	if reply == allExtended {
		items = slices.Repeat([]any{int64(1)}, 3)
	}
	for _, keys := range []int{2, 1} {
		mine := items[:min(keys, len(items))]
		items = items[len(mine):]
		want, words := quorum.Granted, []byte(nil)
		fails, failed, absent, others := len(mine) < keys, false, false, false
		for _, item := range mine {
			n, said := item.(int64)
			switch {
			case !said || n < 0 || n > 2:
				if !failed {
					words, _ = item.([]byte)
				}
				fails, failed = true, true
			case n != 1:
				want = quorum.Refused
			}
			absent = absent || item == int64(2)
			others = others || item == int64(0)
		}
		if fails {
			want = quorum.Failed
		}
		vote, lacks, taken, err := e.Next(keys)
		require.Equal(t, []any{want, absent, others}, []any{vote, lacks, taken}, "%#v", reply)
		require.False(t, err != nil && vote != quorum.Failed)
		if len(words) > 0 {
			require.ErrorContains(t, err, string(words))
		}
	}
}

// checkReports reads a reply as what a node tells of a lock, of a semaphore, of the leaders of a
// name and of its memory.
func checkReports(t *testing.T, reply any) {
	items, _ := reply.([]any)
	if in, ok := ReadInspect(reply); ok {
		checkHolder(t, items, in)
		for i, reader := range in.Readers {
			requireSpan(t, items[5].([]any)[2*i+1].(int64), reader.TTL)
		}
	}
	if p, ok := ReadPermits(reply); ok {
		require.LessOrEqual(t, len(p.Slots), MaxPermits)
		for i, slot := range p.Slots {
			checkHolder(t, items[3].([]any)[3*i:], slot)
		}
	}
	if answer, ok := ReadRecorded(reply); ok {
		if ttl, _ := items[1].(int64); answer.Value != "" {
			requireSpan(t, ttl, answer.TTL)
		}
		for _, entry := range answer.Entries {
			require.Positive(t, entry.Term)
			require.NotEmpty(t, entry.Value)
		}
	}
	if _, now, ok := ReadMemory(reply); ok {
		require.True(t, now > 0 && now <= MaxMarkerTime)
		require.Len(t, items, 2)
	}
	if _, _, now, ok := ReadMembers(reply); ok {
		require.True(t, now > 0 && now <= MaxMarkerTime)
		require.Len(t, items, 3)
	}
	if marker := ReadMarker(reply); !isMarker(reply) {
		require.Empty(t, marker.Marker)
	}
}

func checkHolder(t *testing.T, items []any, in look.Inspection) {
	value, held := items[0].([]byte)
	require.Equal(t, held, in.Held)
	require.Equal(t, string(value), in.Value)
	if ttl, _ := items[1].(int64); held {
		requireSpan(t, ttl, in.TTL)
	} else {
		require.Zero(t, in.TTL)
	}
}

// requireSpan requires that a time is what a reply says, or at the limit of what can be said.
func requireSpan(t *testing.T, millis int64, span time.Duration) {
	t.Helper()
	if millis < 0 {
		require.Negative(t, span, "%d ms", millis)
		return
	}
	require.Equal(t, min(millis, math.MaxInt64/int64(time.Millisecond)), span.Milliseconds())
}

// What the scripts say, and what is nearly that: each is accepted and read as checkReply says.
func TestRepliesThatAreNearlyGrantsAreRefused(t *testing.T) {
	one, fence, bits, oom := int64(1), []byte("1700000000000000"), []byte("000"), []byte("OOM")
	for _, reply := range []any{
		allExtended,
		[]byte(allExtended),
		[]any{one, one, one, one, one},
		[]any{one, int64(2), int64(0), one, int64(2)},
		[]any{int64(2), int64(0), oom, int64(2), one},
		[]any{one, oom, int64(2), int64(0), one},
		[]any{oom, int64(0), one, int64(0), int64(2)},
		[]any{one, one, one, one, oom},
		[]any{one, one, one, oom, int64(0)},
		[]any{one, one, one, one, int64(0)},
		nil, "OK", one, int64(0), fence,
		[]any{},
		[]any{one},
		[]any{one, one},
		[]any{one, fence},
		[]any{one, one, one},
		[]any{one, int64(5), one},
		[]any{int64(2), one},
		[]any{int64(4), one},
		[]any{nil, int64(0), bits},
		[]any{int64(0), int64(0)},
		[]any{int64(0), int64(-1), int64(0)},
		[]any{int64(0), int64(fuzzKeys + 1), int64(1000), int64(0)},
		[]any{int64(0), int64(math.MinInt64), int64(1000), int64(0)},
		[]any{int64(0), fence, one},
		[]any{int64(-1), int64(3)},
		[]any{int64(-1), int64(0)},
		[]any{int64(-1), int64(MaxPermits + 1)},
		[]any{int64(-1), fence},
		[]any{int64(2), one, bits},
		[]any{int64(2), fence, bits},
		[]any{int64(4), one, bits},
		[]any{one, "x", bits},
		[]any{one, int64(0), bits},
		[]any{int64(0), fence, bits},
		[]any{int64(0), int64(0), bits},
		[]any{int64(0), int64(0), []byte("0")},
		[]any{int64(0), int64(0), []byte("002")},
		[]any{int64(0), int64(0), nil},
	} {
		checkReply(t, reply)
	}
}

func TestOnlyCompleteReportsAreUnderstood(t *testing.T) {
	permits := func(reply any) bool { _, ok := ReadPermits(reply); return ok }
	inspect := func(reply any) bool { _, ok := ReadInspect(reply); return ok }
	recorded := func(reply any) bool { _, ok := ReadRecorded(reply); return ok }
	readers := func(readers ...any) any {
		return []any{[]byte(Marker), int64(5), nil, int64(0), nil, int64(0), readers}
	}
	for i, c := range []struct {
		understands func(any) bool
		reply       any
		want        bool
	}{
		{permits, nil, false},
		{permits, "OK", false},
		{permits, []any{}, false},
		{permits, []any{int64(1), int64(0), []any{}, []any{}}, false},
		{permits, []any{int64(-1), int64(0), []any{}, []any{}}, false},
		{permits, []any{int64(1), int64(0), []any{}, []any{nil, int64(-2)}}, false},
		{permits, []any{int64(0), int64(0), []any{}}, false},
		{permits, []any{int64(1), int64(0), nil, []any{nil, int64(-2), nil}}, true},
		{inspect, readers([]byte("one")), false},
		{inspect, readers(int64(1), int64(2)), false},
		{inspect, readers([]byte("one"), []byte("two")), false},
		{inspect, readers(), true},
		{recorded, []any{nil}, false},
	} {
		assert.Equal(t, c.want, c.understands(c.reply), "%d: %v", i, c.reply)
	}
	answer, ok := ReadRecorded([]any{nil, int64(-2), []any{[]byte("no"), []byte("7"), []byte("-1 x"), int64(3), []byte("8 x")}})
	assert.True(t, ok)
	assert.Equal(t, ledger.Answer{Entries: []ledger.Entry{{Term: 8, Value: "x"}}}, answer, "what is no record is skipped")
}
