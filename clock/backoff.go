package clock

import (
	"crypto/rand"
	"encoding/binary"
	"time"
)

// Backoff is the pause between two attempts. It doubles from Shortest to Longest. Each pause is
// drawn at random from its upper half, so that clients which failed together do not retry together.
// It is not safe for concurrent use.
type Backoff struct {
	Shortest, Longest time.Duration // both positive; Shortest is not above Longest

	next time.Duration
}

// Next returns how long to wait now.
func (b *Backoff) Next() time.Duration {
	d := max(b.next, b.Shortest)
	b.next = min(2*d, b.Longest)
	var bits [8]byte
	_, _ = rand.Read(bits[:]) // which never fails, and which a test that seeds it decides
	return d/2 + time.Duration(binary.LittleEndian.Uint64(bits[:])%uint64(d/2+1))
}

// Reset starts over with the shortest pause.
func (b *Backoff) Reset() { b.next = 0 }
