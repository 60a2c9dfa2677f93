package cli

import (
	"errors"
	"fmt"

	"github.com/redquorum/redquorum/internal/prose"
	"github.com/redquorum/redquorum/redlock"
)

// Misnamed returns an error with the status [ExitMisnamed] if a quorum of masters has something
// under a key that can be no lock; nil if not. No lock of that name can be acquired, however long
// one waits.
func Misnamed(key string, status *redlock.Status) error {
	lasting, others := 0, 0
	for _, n := range status.Nodes {
		switch {
		case prose.IsWrongType(n.Err):
			others++
		case n.Err == nil && n.TTL < 0:
			lasting++
		}
	}
	if lasting+others < max(status.Quorum, 1) {
		return nil
	}
	is := prose.Lasting
	if others > lasting {
		is = prose.NoString
	}
	return StatusError{Status: ExitMisnamed, Err: errors.New(prose.NoLock(key, is) + "; " + prose.UseAnother)}
}

// Votes says how many masters vote: 1 of 3 masters votes, 2 are needed.
func Votes(votes, masters, need int) string {
	vote := "vote"
	if votes == 1 || masters == 1 {
		vote = "votes"
	}
	return fmt.Sprintf("%d of %s %s, %s", votes, prose.Plural(masters, "master"), vote, prose.Needed(need))
}
