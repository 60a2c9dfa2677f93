package wire

import (
	"fmt"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

// Nobody waits here: what is handed over is a matter of handover.lua.
func TestAnyOfSeveralKeysIsTakenAsDocumented(t *testing.T) {
	server := redistest.StartOne(t)
	conn, err := redis.Dial("tcp", server.Addr())
	require.NoError(t, err)
	defer conn.Close()
	keys := []string{"a", "b", "c"}
	rapid.Check(t, func(t *rapid.T) {
		w := &pair{t: t, conn: conn}
		w.do("FLUSHALL")
		held := map[string]string{} // what each key must hold
		for range rapid.IntRange(1, 12).Draw(t, "calls") {
			if rapid.IntRange(0, 4).Draw(t, "spoils") == 0 {
				key := rapid.SampledFrom(keys).Draw(t, "key")
				w.do("DEL", key)
				delete(held, key)
				if rapid.Bool().Draw(t, "other type") {
					w.do("RPUSH", key, "x")
					held[key] = "(list)"
				}
			}
			value, only := w.value(), rapid.IntRange(0, len(keys)).Draw(t, "only")
			take := &TakeAny{Keys: keys, Value: value, TTL: pairTTL * time.Millisecond, Grace: pairGrace * time.Millisecond, Only: only}
			args := []any{value, pairTTL, pairGrace, only}
			if rapid.Bool().Draw(t, "fenced") {
				take.Fencing = Fencing{Wall: w.timestamp(), Life: pairLife * time.Millisecond}
				args = append(args, take.Fencing.Wall, pairLife)
			}
			request := take.Request()
			if request.Words != pipeline.On(keys, args...) {
				t.Fatalf("the request is %+v, not %v", request.Words, args)
			}
			reply := w.do("EVAL", append([]any{bare(anys), len(keys), "a", "b", "c"}, args...)...)
			if !request.Accept(reply) {
				t.Fatalf("the request does not accept %v", reply)
			}
			got, want := ReadChoice(reply), takeAny(keys, held, value, only)
			if got.Got != want || (want != 0 && (Fence(reply) != 0) != (take.Fencing.Life != 0)) {
				t.Fatalf("the script says %v, not %d of %v", reply, want, held)
			}
			for i, key := range keys {
				text := fmt.Sprintf("%s", w.do("EVAL", "local v = redis.pcall('GET', KEYS[1]) return v and (v.err and '(list)' or v) or ''", 1, key))
				free := held[key] == "" || held[key] == "(list)" // which cannot be told apart
				if text != held[key] || got.IsFree(i+1) != free {
					t.Fatalf("%q holds %q, not %q; the script says %v", key, text, held[key], reply)
				}
			}
		}
	})
}

// takeAny is what any.lua must do.
func takeAny(keys []string, held map[string]string, value string, only int) (got int) {
	for i, key := range keys {
		switch {
		case held[key] != value:
		case only == 0:
			got = i + 1
		case i+1 != only:
			delete(held, key)
		}
	}
	for i, key := range keys {
		if only == 0 && got == 0 && held[key] == "" || i+1 == only && (held[key] == "" || held[key] == value) {
			held[key] = value
			return i + 1
		}
	}
	return got
}
