package wire

import (
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

// Terms are the TTL of a lock and the grace of its release, encoded for its claim.
type Terms struct {
	text  string
	grace int // where it ends
}

// NewTerms returns the terms.
func NewTerms(ttl, grace time.Duration) Terms {
	first := pipeline.Encode(grace.Milliseconds())
	return Terms{first + pipeline.Encode("NX", "PX", ttl.Milliseconds()), len(first)}
}

// NewClaim returns a claim, together with its key, which is prefix and name, and its value. They
// share its memory.
func NewClaim(prefix, name string, value []byte, terms *Terms) (c Claim, claimed, claimant string) {
	text := pipeline.EncodeBefore(terms.text, "SET", prefix+name, value)
	claimed, behindKey := pipeline.NextWord(text[setLength:])
	claimant, behindValue := pipeline.NextWord(behindKey)
	size := len(text) // at most 8 KiB: names, prefixes and values are bounded
	c = Claim{text, uint16(size - len(behindKey)), uint16(size - len(behindValue)), uint16(size - len(terms.text) + terms.grace)}
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
