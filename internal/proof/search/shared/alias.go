package shared

import "github.com/redquorum/redquorum/internal/proof/spec"

// What internal/proof/history/design takes from internal/proof/spec by way of this package.

type (
	// An Entry is that of spec.
	Entry[V comparable] = spec.Entry[V]
	// A Member is that of spec.
	Member[V comparable] = spec.Member[V]
	// An Answer is that of spec.
	Answer = spec.Answer
)

// The answers of spec.
const (
	Refused  = spec.Refused
	Extended = spec.Extended
	Healed   = spec.Healed
)
