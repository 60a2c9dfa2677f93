package fence

import "github.com/redquorum/redquorum/internal/proof/spec"

// What internal/proof/history/design takes from internal/proof/spec by way of this package.
type (
	Entry[V comparable]   = spec.Entry[V]
	Entries[V comparable] = spec.Entries[V]
)

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
