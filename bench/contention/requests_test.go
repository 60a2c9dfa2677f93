package contention

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestRequestsAreCountedHoweverTheyAreCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		commands := rapid.SliceOfN(rapid.SliceOfN(rapid.SampledFrom([]string{
			"", "SET", "key", "*1\r\n$4\r\nPING\r\n", strings.Repeat("x", 130),
		}), 1, 12), 0, 6).Draw(t, "commands")
		var bytes strings.Builder
		for _, words := range commands {
			fmt.Fprintf(&bytes, "*%d\r\n", len(words))
			for _, word := range words {
				fmt.Fprintf(&bytes, "$%d\r\n%s\r\n", len(word), word)
			}
		}
		var stream requestStream
		got := 0
		for rest := []byte(bytes.String()); len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "bytes written")
			counted, err := stream.feed(rest[:n])
			if err != nil {
				t.Fatal(err)
			}
			got, rest = got+counted, rest[n:]
		}
		if got != len(commands) {
			t.Fatalf("counted %d of %d commands", got, len(commands))
		}
	})
}
