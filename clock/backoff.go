package clock

import (
	"math/rand/v2"
	"time"
)

// Backoff is the pause between two attempts. It doubles from the shortest to the longest, and each pause is taken at random
// from its upper half, so that those who failed together do not come back together. It is not for concurrent use.
type Backoff struct {
	Shortest, Longest time.Duration // both positive, the first not above the second

	next time.Duration
}

// Next returns how long to wait now.
func (b *Backoff) Next() time.Duration {
	d := max(b.next, b.Shortest)
	b.next = min(2*d, b.Longest)
	return d/2 + rand.N(d/2+1)
}

// Reset begins anew, with the shortest.
func (b *Backoff) Reset() { b.next = 0 }
