package pool

import (
	"math/rand/v2"
	"time"
)

// backoff is the pause between two attempts: it doubles up to a cap, and is jittered so that the clients of a node that
// comes back do not all come back with it.
type backoff struct {
	shortest, longest time.Duration
	next              time.Duration
}

// pause returns how long to wait now.
func (b *backoff) pause() time.Duration {
	d := max(b.next, b.shortest)
	b.next = min(2*d, b.longest)
	return d/2 + rand.N(d/2+1)
}

func (b *backoff) reset() { b.next = b.shortest }
