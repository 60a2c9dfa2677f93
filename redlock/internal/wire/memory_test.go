package wire

import (
	"fmt"
	"math"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/internal/proof/search/memory"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

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
		begin := rapid.SampledFrom([]string{"", "new", "lost", "active"}).Draw(t, "begin")
		wait := rapid.SampledFrom([]int64{0, 0, 1, 60_000, 24 * 60 * 60 * 1000}).Draw(t, "wait")
		due := rapid.SampledFrom([]int64{0, 1, time[0] * 1000, time[0]*1000 + 100_000, math.MaxInt32 * 1000}).Draw(t, "due")
		reply := do("EVAL", bare([]string{memorySource}), 1, pipeline.MemoryKey, expected, begin, "rest of it", wait, due)
		said, now, ok := ReadMemory(reply)
		if !ok {
			t.Fatalf("%q", reply)
		}
		want := memory.Swap(held, expected, begin, "rest of it", wait, due, now)
		if said != want {
			t.Fatalf("got %q, want %q", said, want)
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
