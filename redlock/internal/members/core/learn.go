package core

import (
	"fmt"
	"slices"

	"github.com/redquorum/redquorum/redlock/internal/members/record"
)

// conflictError means that the list has masters of two clusters.
type conflictError struct{ one, other string }

func (e conflictError) Error() string {
	return fmt.Sprintf("the list has the masters of two clusters, %s and %s: leave out those of one (WithCluster says which one is meant)", e.one, e.other)
}

// ConflictOf returns why no lock may be granted where the list has masters of two clusters.
func ConflictOf(one, other string) error { return conflictError{min(one, other), max(one, other)} }

// IsSmall reports whether a cluster is a single master, beside a larger one.
func IsSmall(r *record.Roster, among []*record.Roster) bool {
	return len(r.Members) == 1 && slices.ContainsFunc(among, func(other *record.Roster) bool { return len(other.Members) > 1 })
}
