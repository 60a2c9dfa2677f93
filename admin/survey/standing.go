package survey

import (
	"github.com/redquorum/redquorum/internal/prose"
	"github.com/redquorum/redquorum/internal/trouble"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// Standing says whether a node votes, in a word, and why not.
func Standing(n *redlock.NodeStats) (state, why string) {
	switch {
	case n.State == pool.Connecting:
		return "connecting", ""
	case n.State == pool.Up && n.Barred == nil:
		return MemberVotes, ""
	case n.State == pool.Up || n.State == pool.Closed && n.Barred != nil: // it was removed
		return MemberBarred, prose.Readable(n.Barred.Error() + trouble.Of(n.Barred).Hint())
	case n.Err != nil:
		return MemberDown, prose.Readable(n.Err.Error() + trouble.Of(n.Err).Hint())
	default:
		return MemberDown, ""
	}
}
