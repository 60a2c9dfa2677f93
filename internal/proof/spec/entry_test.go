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

func TestReleaseServesAllReadersUpToTheNextWriter(t *testing.T) {
	node := &Entry[string]{Marker: "readers"}
	_, granted := node.AcquireWrite("holder", 10, 0)
	assert.True(t, granted)
	for _, reader := range []string{"dead", "first", "second"} {
		_, granted = node.WaitRead(reader, 10, 0, false, 5, alive)
		assert.False(t, granted)
	}
	_, granted = node.WaitWrite("writer", 10, 0)
	assert.False(t, granted)
	_, granted = node.WaitRead("third", 10, 0, false, 5, alive)
	assert.False(t, granted)

	node.ReleaseWrite("holder", 5, func(v string) bool { return v != "dead" })
	assert.Equal(t, []Member[string]{{"first", 5}, {"second", 5}}, node.Members)
	assert.Equal(t, []Waiter[string]{{"writer", false}, {"third", true}}, node.Waiting)
	assert.Equal(t, "writer", node.Intent)

	_, granted = node.AcquireRead("first", 10, 0, false)
	assert.True(t, granted, "it confirms, and the intent does not keep it out")
	_, granted = node.AcquireRead("third", 10, 0, false)
	assert.False(t, granted)
	_, granted = node.AcquireRead("third", 10, 0, true)
	assert.True(t, granted, "its turn has come elsewhere")

	for _, reader := range []string{"first", "second", "third"} {
		assert.True(t, node.ReleaseRead(reader, 5, alive))
	}
	assert.Equal(t, "writer", node.Key)
	fence, granted := node.WaitWrite("writer", 10, 0)
	assert.True(t, granted)
	assert.EqualValues(t, 2, fence)
	assert.Empty(t, node.Intent)
}

func TestReaderWhoseTurnHasComeServesTheReadersBehindIt(t *testing.T) {
	node := &Entry[string]{Marker: "readers"}
	_, granted := node.AcquireRead("holder", 10, 0, false)
	assert.True(t, granted)
	_, granted = node.AnnounceWrite("gone", 10, 0)
	assert.False(t, granted)
	for _, reader := range []string{"first", "dead", "second"} {
		_, granted = node.WaitRead(reader, 10, 0, false, 5, alive)
		assert.False(t, granted)
	}
	_, granted = node.WaitWrite("writer", 10, 0)
	assert.False(t, granted)
	_, granted = node.WaitRead("third", 10, 0, false, 5, alive)
	assert.False(t, granted)

	_, granted = node.WaitRead("first", 10, 0, true, 5, func(v string) bool { return v != "dead" })
	assert.True(t, granted)
	assert.Equal(t, []Member[string]{{"holder", 10}, {"first", 10}, {"second", 5}}, node.Members)
	assert.Equal(t, []Waiter[string]{{"writer", false}, {"third", true}}, node.Waiting)
	_, granted = node.WaitRead("second", 10, 0, true, 5, alive)
	assert.True(t, granted)
	assert.Len(t, node.Waiting, 2, "the oldest waits to write")
}
