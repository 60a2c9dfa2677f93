package redlock

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/redquorum/redquorum/internal/memorymodel"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/internal/redistest"
)

func TestMarkersAreReadAsTheyAreWritten(t *testing.T) {
	word := rapid.StringMatching(`[A-Za-z0-9]{1,40}|-`)
	rapid.Check(t, func(t *rapid.T) {
		m := marker{
			state:       rapid.SampledFrom([]markerState{markerNew, markerLost, markerActive}).Draw(t, "state"),
			incarnation: word.Draw(t, "incarnation"), runID: word.Draw(t, "run id"), replID: word.Draw(t, "repl id"),
			durable: rapid.Bool().Draw(t, "durable"), maxTTL: rapid.Int64Range(1, maxMarkerTTL).Draw(t, "max TTL"),
		}
		text := wordActive
		if m.state != markerActive {
			m.until = rapid.Int64Range(1, maxMarkerTime).Draw(t, "until")
			text = map[markerState]string{markerNew: wordNew, markerLost: wordLost}[m.state] + " until " + strconv.FormatInt(m.until, 10)
		}
		if got := parseMarker(text + " " + m.rest()); got != m {
			t.Fatalf("got %+v, want %+v", got, m)
		}
	})
}

func TestWhatIsNoMarkerIsUnreadable(t *testing.T) {
	assert.Equal(t, marker{}, parseMarker(""))
	for _, text := range []string{
		" ", pipeline.OtherType, "hello", "active", "active ", "active a b 0 60000", "active a b 2 60000 c", "active a b 0 0 c", "active a b 0 x c",
		"active a b 0 60000 c d", "active  b 0 60000 c", "new a b 0 60000 c", "new until x a b 0 60000 c", "new until -1 a b 0 60000 c",
		"lost until 5", "active until 5 a b 0 60000 c", "active a b 0 86400001 c", "ACTIVE a b 0 60000 c",
	} {
		assert.Equal(t, markerUnreadable, parseMarker(text).state, "%q", text)
	}
}

func FuzzParseMarker(f *testing.F) {
	f.Add("active a b 0 60000 c")
	f.Add("new until 5 a b 1 60000 c")
	f.Add("lost until 9007199254740993 a b 1 60000 c")
	f.Fuzz(func(t *testing.T, text string) {
		switch m := parseMarker(text); m.state {
		case markerAbsent:
			assert.Empty(t, text)
		case markerUnreadable:
			assert.Equal(t, marker{state: markerUnreadable}, m)
		case markerNew, markerLost, markerActive:
			assert.True(t, strings.HasSuffix(text, strings.SplitN(m.rest(), " ", 2)[0]+" "+strings.SplitN(text, m.incarnation+" ", 2)[1]))
			assert.Positive(t, m.maxTTL)
		}
	})
}

// The judgement on a node is the one of the model in which all searches for violations are made.
func TestAServerIsJudgedAsInTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bit := func(name string) bool { return rapid.Bool().Draw(t, name) }
		facts := memorymodel.Facts{
			State: rapid.SampledFrom([]memorymodel.State{memorymodel.Absent, memorymodel.New, memorymodel.Lost, memorymodel.Active}).Draw(t, "state"),
			Own:   bit("own"), Durable: bit("durable"), DurableNow: bit("durable now"), ReplidChanged: bit("replid changed"),
			Promoted: bit("promoted"), Elsewhere: bit("elsewhere"), Known: bit("known"), Passed: bit("passed"),
		}
		if facts.State == memorymodel.Absent && facts.Own {
			facts.Own = false
		}
		s := server{runID: "run", replID: "repl", promoted: facts.Promoted, recalls: 10_000, durable: facts.DurableNow && !facts.Promoted, tells: true}
		m := marker{
			state: map[memorymodel.State]markerState{
				memorymodel.Absent: markerAbsent, memorymodel.New: markerNew, memorymodel.Lost: markerLost, memorymodel.Active: markerActive,
			}[facts.State],
			incarnation: "one", runID: "run", replID: "repl", durable: facts.Durable, maxTTL: 1000, until: 500_000,
		}
		if facts.Own && facts.Durable {
			s.durable = true // else it is written down that it is not; the model leaves that to the next restart
		}
		if !facts.Own {
			m.runID = "another"
		}
		if facts.ReplidChanged {
			m.replID = "another"
		}
		v := view{own: !facts.Elsewhere, maxTTL: 1000, now: 499_500}
		if facts.Known {
			v.known = "before"
			v.own = false // who knew another incarnation here does not believe that this one came back
			facts.Elsewhere = true
		}
		if facts.Passed {
			v.now = 500_000
		}
		if facts.State == memorymodel.Absent {
			m = marker{}
		}
		if got, want := kindOf(s.judge(m, v), v.now), memorymodel.Judge(facts); got != want {
			t.Fatalf("got %v, the model says %v: %+v", got, want, facts)
		}
	})
}

// kindOf returns what a judgement is in the model.
func kindOf(j judgement, now int64) memorymodel.Verdict {
	word := ""
	if j.change != nil {
		word = strings.Fields(j.change.begin)[0]
	}
	switch {
	case j.votes:
		return memorymodel.Vote
	case word == wordNew:
		return memorymodel.WriteNew
	case word == wordLost && j.change.wait > 0:
		return memorymodel.WriteLost
	case word == wordLost:
		return memorymodel.ToLost
	case word == wordActive && j.change.due > now:
		return memorymodel.Wait
	case word == wordActive && j.change.due > 0:
		return memorymodel.Activate
	default:
		return memorymodel.TakeRun
	}
}

// The script that changes markers does what the model's does, whatever the key holds.
func TestTheMemoryScriptDoesWhatTheModelDoes(t *testing.T) {
	conn, err := redis.Dial("tcp", redistest.StartOne(t).Addr())
	require.NoError(t, err)
	defer conn.Close()
	texts := []string{"", "active a b 0 60000 c", "new until 5 a b 0 60000 c", "hello", " ", pipeline.OtherType}
	rapid.Check(t, func(t *rapid.T) {
		do := func(command string, args ...any) any {
			reply, err := conn.Do(command, args...)
			if err != nil {
				t.Fatalf("%s %q: %v", command, args, err)
			}
			return reply
		}
		held := rapid.SampledFrom(texts).Draw(t, "held")
		do("DEL", pipeline.MemoryKey)
		switch held {
		case "":
		case pipeline.OtherType:
			do(rapid.SampledFrom([]string{"RPUSH", "SADD"}).Draw(t, "type"), pipeline.MemoryKey, "x")
		default:
			do("SET", pipeline.MemoryKey, held)
		}
		time, err := redis.Int64s(do("TIME"), nil)
		if err != nil {
			t.Fatal(err)
		}
		expected := rapid.SampledFrom(texts).Draw(t, "expected")
		begin := rapid.SampledFrom([]string{"", wordNew, wordLost, wordActive}).Draw(t, "begin")
		wait := rapid.SampledFrom([]int64{0, 0, 1, 60_000, maxMarkerTTL}).Draw(t, "wait")
		due := rapid.SampledFrom([]int64{0, 1, time[0] * 1000, time[0]*1000 + 100_000, math.MaxInt32 * 1000}).Draw(t, "due")
		reply := do("EVAL", bare([]string{memorySource}), 1, pipeline.MemoryKey, expected, begin, "rest of it", wait, due)
		if !isMemoryReply(reply) {
			t.Fatalf("%q", reply)
		}
		said, err := redis.Strings(reply, nil)
		if err != nil {
			t.Fatal(err)
		}
		now, _ := number(said[1], maxMarkerTime)
		want := memorymodel.Swap(held, expected, begin, "rest of it", wait, due, now)
		if said[0] != want {
			t.Fatalf("got %q, want %q", said[0], want)
		}
		if want != held {
			if kept := fmt.Sprintf("%s", do("GET", pipeline.MemoryKey)); kept != want {
				t.Fatalf("the key holds %q, want %q", kept, want)
			}
		}
		if earlier := time[0]*1000 + time[1]/1000; now < earlier {
			t.Fatalf("its time is %d, and was %d before", now, earlier)
		}
	})
}
