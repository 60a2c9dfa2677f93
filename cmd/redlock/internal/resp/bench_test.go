package resp

import (
	"context"
	"testing"
)

func BenchmarkScript(b *testing.B) {
	known := scripts{known: map[string]*script{}}
	s, _, err := known.add("if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		w := &world{states: []*state{{key: "k", held: true, token: "mine", seen: true, seenToken: "mine"}}}
		if _, err := w.run(context.Background(), s, []string{"mine"}); err != nil {
			b.Fatal(err)
		}
	}
}
