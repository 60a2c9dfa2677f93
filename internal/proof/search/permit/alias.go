package permit

import "github.com/redquorum/redquorum/internal/proof/spec"

// What internal/proof/history/design takes from internal/proof/spec by way of this package.

type (
	// An Entry is that of spec.
	Entry[V comparable] = spec.Semaphore[V]
	// An Answer is that of spec.
	Answer = spec.SlotAnswer
)

// The limits and answers of spec.
const (
	MaxPermits = spec.MaxPermits
	Differs    = spec.Refused
	Same       = spec.Extended
)
