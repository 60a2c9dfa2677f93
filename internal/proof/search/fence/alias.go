package fence

import "github.com/redquorum/redquorum/internal/proof/spec"

// What internal/proof/history/design takes from internal/proof/spec by way of this package.

type (
	// An Entry is what a mend looks at.
	Entry[V comparable] struct {
		Value V
		Fence int64
	}
	// Entries are what a mend looks at.
	Entries[V comparable] []*Entry[V]
)

// Mend is that of spec.
func (s Entries[V]) Mend(value V, given, t int64) bool {
	e := spec.Entry[V]{Key: s[0].Value, Fence: s[0].Fence}
	mended := spec.Entries[V]{&e}.Mend(value, given, t)
	s[0].Fence = e.Fence
	return mended
}

// The distances of spec.
const (
	Delta = spec.Delta
	Limit = spec.Limit
	Ahead = spec.Ahead
)

// Clamp is that of spec.
func Clamp(ts, now int64) int64 { return spec.Clamp(ts, now) }

// Follows is that of spec.
func Follows(fence, t, limit, life int64) bool { return spec.Follows(fence, t, limit, life) }
