package spec

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

// Exclusion rests on this, whatever the times are and however many read: what a node promised a
// reader is there for as long as it promised, and the marker lives no longer than that.
func TestNodeKeepsWhatItPromisedReaders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		node := &Entry[string]{Marker: "readers"}
		promised := map[string]int64{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			node.Now += rapid.Int64Range(0, 20).Draw(t, "time")
			if node.Key != "" {
				node.Expire()
			}
			value := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(t, "value")
			ttl := rapid.Int64Range(1, 50).Draw(t, "ttl")
			switch rapid.IntRange(0, 3).Draw(t, "operation") {
			case 0:
				if _, granted := node.AcquireRead(value, ttl, 0, false); granted {
					promised[value] = node.Now + ttl
				}
			case 1:
				if node.ExtendRead(value, ttl) != Refused {
					promised[value] = node.Now + ttl
				}
			case 2:
				assert.Equal(t, promised[value] > node.Now, node.ReleaseRead(value, ttl, alive))
				delete(promised, value)
			case 3:
				if _, granted := node.AcquireWrite("writer", ttl, 0); granted {
					node.Now = max(node.Now, node.Until)
					node.Expire()
				}
			}
			longest := int64(0)
			for reader, until := range promised {
				if until > node.Now {
					assert.Contains(t, node.Members, Member[string]{reader, until})
					longest = max(longest, until)
				}
			}
			if longest == 0 {
				assert.Empty(t, node.Key)
			} else {
				assert.Equal(t, node.Marker, node.Key)
				assert.Equal(t, longest, node.Until)
			}
		}
	})
}
