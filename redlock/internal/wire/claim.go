package wire

import (
	"math"
	"time"

	"github.com/redquorum/redquorum/internal/pipeline"
)

// Claim is what the requests of a lock of one name have in common, encoded once: SET, the key and
// the value, followed by the grace of the release and the end of the SET. The zero Claim has
// nothing.
type Claim struct {
	text              string
	key, value, grace uint16 // where each of them ends
}

// NewClaim returns a claim, together with its key, which is prefix and name, and its value. They
// share its memory.
func NewClaim(prefix, name string, value []byte, ttl, grace time.Duration) (c Claim, claimed, claimant string) {
	text := pipeline.Encode("SET", prefix+name, value, grace.Milliseconds(), "NX", "PX", ttl.Milliseconds())
	claimed, behindKey := pipeline.NextWord(text[setLength:])
	claimant, behindValue := pipeline.NextWord(behindKey)
	_, behindGrace := pipeline.NextWord(behindValue)
	if size := len(text); size <= math.MaxUint16 {
		c = Claim{text, uint16(size - len(behindKey)), uint16(size - len(behindValue)), uint16(size - len(behindGrace))}
	}
	return c, claimed, claimant
}

var setLength = len(pipeline.Encode("SET"))

// set is SET key value NX PX ttl.
func (c *Claim) set() pipeline.Words { return pipeline.Parts(c.text[:c.value], c.text[c.grace:], 6) }

// fenced are the words of acquire.lua.
func (c *Claim) fenced(ttl time.Duration, fencing Fencing) pipeline.Words {
	rest := pipeline.Encode(ttl.Milliseconds(), fencing.Wall, fencing.Life.Milliseconds())
	return pipeline.KeyParts(c.text[setLength:c.value], rest, 5, int(c.key)-setLength)
}

// release are the words of release.lua.
func (c *Claim) release() pipeline.Words {
	return pipeline.KeyParts(c.text[setLength:c.grace], "", 3, int(c.key)-setLength)
}
