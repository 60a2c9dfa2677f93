package wire

import (
	"math"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/internal/proof/fuzzed"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
)

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
	w := &Wait{Keys: keys, Value: "v", Fencing: fencing}
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
		cases["acquire one"] = plain(Acquire(&Claim{}, keys[:1], "v", time.Second, fencing))
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
	require.False(t, granted && a.Other != 0)
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
			if fence := Fence(reply); grants && fencing.Life > 0 {
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

// FuzzReplies gives any reply to all functions that read one. They must not panic, must not find a
// vote in what no script says, and must not turn one number into another.
func FuzzReplies(f *testing.F) {
	f.Fuzz(func(t *testing.T, data []byte) {
		reply := fuzzReply(fuzzed.New(data), 12)
		checkGrants(t, reply)
		checkAnswers(t, reply)
		checkExtended(t, reply)
		checkReports(t, reply)
	})
}
