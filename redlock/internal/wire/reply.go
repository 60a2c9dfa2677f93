package wire

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/redquorum/redquorum/redlock/internal/quorum"
)

// A Meaning says which vote an answer is.
type Meaning uint8

// The meanings.
const (
	Grant    Meaning = iota // of the answer to a request for a lock
	Released                // to [Release], [Semaphore.GiveBack]
	Yes                     // to a script that returns 1 if the key was ours
	Raised                  // to [Raise]
	Forced                  // to [Force]: a value that was not meant refuses
	Any                     // every answer grants
	None                    // every answer refuses
)

// Vote returns the vote that an answer is.
func (m Meaning) Vote(answer any) quorum.Vote {
	switch m {
	case Grant:
		return grant(answer)
	case Released:
		return released(answer)
	case Raised:
		// A node that does not follow has not refused: the caller has the lock there.
		if answer == int64(-1) {
			return quorum.Failed
		}
		return yes(answer)
	case Yes:
		return yes(answer)
	case Forced:
		if answers, _ := answer.([]any); len(answers) > 2 {
			return quorum.Refused
		}
		return quorum.Granted
	case Any:
		return quorum.Granted
	case None:
		return quorum.Refused
	}
	panic(fmt.Sprintf("wire: meaning %d", m))
}

func grant(answer any) quorum.Vote {
	if answers, ok := answer.([]any); ok { // from Wait and the like
		answer = answers[0]
	}
	if n, ok := answer.(int64); answer == nil || ok && n <= 0 {
		return quorum.Refused
	}
	return quorum.Granted
}

func released(answer any) quorum.Vote {
	switch n, _ := answer.(int64); n {
	case 1:
		return quorum.Granted
	case 2:
		return quorum.Handed
	case 3:
		return quorum.Spared
	default:
		return quorum.Refused
	}
}

func yes(answer any) quorum.Vote {
	if n, _ := answer.(int64); n == 1 {
		return quorum.Granted
	}
	return quorum.Refused
}

// Fence returns the fence in an answer that [Grant] reads as a grant. Wall is the clock that the
// request had ([Fencing.Wall]). In the common case the fence is that, and the answer says so by a
// constant, which takes no memory.
func Fence(reply any, wall int64) int64 {
	if reply == isWall {
		return wall
	}
	if answers, ok := reply.([]any); ok {
		reply = answers[1]
	}
	text, _ := reply.([]byte)
	n, _ := strconv.ParseInt(string(text), 10, 64) //nolint:errcheck // isFence has read it
	return n
}

// isSetReply reports whether a reply is one to SET with NX: OK, or nil if the key exists.
func isSetReply(reply any) bool { return reply == nil || reply == "OK" }

// isVote reports whether acquire.lua, join.lua, adopt.lua and the like can give this reply without
// fencing, and isFencedVote with it.
func isVote(reply any) bool       { return reply == int64(0) || reply == int64(1) }
func isFencedVote(reply any) bool { return reply == int64(0) || isFence(reply) }

// isWall is the answer of acquire.lua for one key if the fence is the caller's clock, and isOneVote
// reports whether a reply is one that it can give then.
const isWall = "OK"

func isOneVote(reply any) bool { return reply == isWall || isFencedVote(reply) }

// isFence reports whether a reply is a number that fence.lua can return.
func isFence(reply any) bool {
	text, _ := reply.([]byte)
	n, err := strconv.ParseInt(string(text), 10, 64)
	return err == nil && n > 0 && n < 1<<53
}

// spanOf returns a time to live in milliseconds, negative for none, or the longest time that there
// is: servers keep keys for longer.
func spanOf(millis int64) time.Duration {
	const most = int64(math.MaxInt64 / time.Millisecond)
	return time.Duration(min(max(millis, -1), most)) * time.Millisecond
}

func isInteger(reply any) bool {
	_, ok := reply.(int64)
	return ok
}

func isArray(reply any) bool {
	_, ok := reply.([]any)
	return ok
}
