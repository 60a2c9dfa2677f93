package shared

import "github.com/redquorum/redquorum/internal/proof/spec"

// What internal/proof/history/design takes from internal/proof/spec by way of this package.
type (
	Entry[V comparable]  = spec.Entry[V]
	Member[V comparable] = spec.Member[V]
	Answer               = spec.Answer
)

// The answers of spec.
const (
	Refused  = spec.Refused
	Extended = spec.Extended
	Healed   = spec.Healed
)
