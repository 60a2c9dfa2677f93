package wire

import (
	"math"
	"time"

	"github.com/redquorum/redquorum/internal/pipeline"
)

// Claim is what the requests of a lock of one name have in common, encoded once: its key and its
// value, followed by the grace of its release and the end of its SET. The zero Claim has nothing.
type Claim struct {
	text              string
	key, value, grace uint16 // where each of them ends
}

// NewClaim returns a claim, together with its key, which is prefix and name, and its value. They
// share its memory.
func NewClaim(prefix, name string, value []byte, ttl, grace time.Duration) (c Claim, claimed, claimant string) {
	text := pipeline.Encode(prefix+name, value, grace.Milliseconds(), "NX", "PX", ttl.Milliseconds())
	claimed, behindKey := pipeline.NextWord(text)
	claimant, behindValue := pipeline.NextWord(behindKey)
	_, behindGrace := pipeline.NextWord(behindValue)
	if size := len(text); size <= math.MaxUint16 {
		c = Claim{text, uint16(size - len(behindKey)), uint16(size - len(behindValue)), uint16(size - len(behindGrace))}
	}
	return c, claimed, claimant
}

var setWord = pipeline.Encode("SET")

// set is SET key value NX PX ttl.
func (c *Claim) set() pipeline.Words {
	return pipeline.Parts(setWord, c.text[:c.value], c.text[c.grace:], 6, 0)
}

// fenced are the words of acquire.lua.
func (c *Claim) fenced(ttl time.Duration, fencing Fencing) pipeline.Words {
	rest := pipeline.Encode(ttl.Milliseconds(), fencing.Wall, fencing.Life.Milliseconds())
	return pipeline.Parts(c.text[:c.key], c.text[c.key:c.value], rest, 5, 1)
}

// release are the words of release.lua.
func (c *Claim) release() pipeline.Words {
	return pipeline.Parts(c.text[:c.key], c.text[c.key:c.grace], "", 3, 1)
}
