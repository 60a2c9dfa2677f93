package pool

import (
	"strings"

	"github.com/redquorum/redquorum/internal/trouble"
)

// Trouble returns what is wrong with a node, by the error in its Stats, or one of a call: a word
// that never changes, and what to do about it. docs/troubles.md has them all. The word is empty for
// nil, and for errors that tell nothing of a server; the cure, if it takes an examination (`redlock
// doctor`), or if there is nothing to do but to wait.
func Trouble(err error) (word, cure string) {
	kind := trouble.Of(err)
	hint := kind.Hint()
	return string(kind), strings.TrimSuffix(strings.TrimPrefix(hint, " ("), ")")
}
