package wire

import (
	"time"

	"github.com/redquorum/redquorum/internal/pipeline"
)

// Prefixes of the keys that are stored beside those of the locks.
const (
	Reserved = "redquorum:" // of all of them, and of no lock

	adoptionNote = Reserved + "adopt:" // followed by the lock's key, a colon and the new value

	// WakeChannel is the prefix of the channel that a process subscribes to; its name follows.
	WakeChannel = Reserved + "wake:"
)

// Fencing makes a script raise the fencing counters. The zero Fencing raises none.
type Fencing struct {
	Wall int64         // the client's wall clock, in microseconds since 1970
	Life time.Duration // how long the counters live after this
}

// isVote and grants report whether a script that is given this fencing can give a reply, and
// whether it grants.
func (f Fencing) isVote() func(reply any) bool {
	if f.Life == 0 {
		return isVote
	}
	return isFencedVote
}

func (f Fencing) grants(reply any) bool { return reply != int64(0) && f.isVote()(reply) }

func (f Fencing) appendTo(args []any) []any {
	if f.Life == 0 {
		return args
	}
	return append(args, f.Wall, f.Life.Milliseconds())
}

// onlyKey returns the key that a script writes, or "" if it writes several.
func onlyKey(keys []string) string {
	if len(keys) > 1 {
		return ""
	}
	return keys[0]
}

// Acquire returns a request that takes all keys or none: SET key value NX PX ttl, or a script that
// does the same for several keys or with fencing. The claim is of the key, if there is only one.
// [Grant] reads the answer.
func Acquire(claim *Claim, keys []string, value string, ttl time.Duration, fencing Fencing) pipeline.Request {
	shares := claim.text != ""
	if len(keys) == 1 && fencing.Life == 0 {
		r := pipeline.Request{Key: keys[0], Accept: isSetReply, Prove: true}
		if shares {
			r.Words = claim.set()
		} else {
			r.Words = pipeline.Command("SET", keys[0], value, "NX", "PX", ttl.Milliseconds())
		}
		return r
	}
	r := pipeline.Request{Script: acquireScript, Key: onlyKey(keys), Accept: fencing.isVote(), Prove: true}
	if len(keys) == 1 {
		r.Accept = isOneVote
	}
	switch {
	case fencing.Life == 0:
		r.Words = pipeline.On(keys, value, ttl.Milliseconds())
	case shares:
		r.Words = claim.fenced(ttl, fencing)
	default:
		r.Words = pipeline.On(keys, value, ttl.Milliseconds(), fencing.Wall, fencing.Life.Milliseconds())
	}
	return r
}

// Join returns a request that makes one lock of several: parts are their values, in the order of
// the keys. [Grant] reads the answer.
func Join(keys []string, value string, ttl time.Duration, parts []string, fencing Fencing) pipeline.Request {
	args := []any{value, ttl.Milliseconds()}
	for _, part := range parts {
		args = append(args, part)
	}
	return pipeline.Request{
		Script: joinScript, Words: pipeline.On(keys, fencing.appendTo(args)...), Key: onlyKey(keys), Accept: fencing.isVote(), Prove: true,
	}
}

// Adopt returns a request that swaps the value of a key. [Grant] reads the answer.
func Adopt(key, from, to string, ttl time.Duration, fencing Fencing) pipeline.Request {
	args := fencing.appendTo([]any{from, to, ttl.Milliseconds()})
	return pipeline.Request{
		Script: adoptScript, Words: pipeline.On([]string{key}, args...), Key: key, Accept: fencing.isVote(), Prove: true,
	}
}

// Restore returns a request that undoes a swap: to is the value that the key was given. [Yes] reads
// the answer.
func Restore(key, to string, grace time.Duration) pipeline.Request {
	return pipeline.Request{
		Script: restoreScript, Words: pipeline.On([]string{key}, to, grace.Milliseconds()), Key: key, Accept: isInteger,
	}
}

// Forget returns a request that removes the note of a swap that stands. [Yes] reads the answer.
func Forget(key, to string) pipeline.Request {
	note := adoptionNote + key + ":" + to
	return pipeline.Request{Script: forgetScript, Words: pipeline.On([]string{note}), Key: key, Accept: isInteger}
}

// Release returns a request that deletes the keys that hold the value, or hands them over; a waiter
// has the grace to confirm that. The claim is of the key, if there is only one, and of this grace.
// Process names the caller on the wait lists that it leaves; "" if it is on none. [Released]
// reads the answer.
func Release(claim *Claim, keys []string, value string, grace time.Duration, process string) pipeline.Request {
	r := pipeline.Request{Script: releaseScript, Key: keys[0], Accept: isInteger}
	switch {
	case process != "":
		r.Words = pipeline.On(keys, value, grace.Milliseconds(), process)
	case claim.text != "":
		r.Words = claim.release()
	default:
		r.Words = pipeline.On(keys, value, grace.Milliseconds())
	}
	return r
}

// Retain returns a request that releases within a minimum hold: the keys that hold the value stay
// taken until the instant that the Sink tells ([pipeline.Timed]). In all else, and once that has
// passed, it is like [Release], or [ReleaseAnnounced] if announced. [Released] reads the answer.
func Retain(keys []string, value string, grace time.Duration, process string, announced bool) pipeline.Request {
	r := pipeline.Request{Script: retainScript, Key: keys[0], Accept: isInteger}
	lets := ""
	if announced {
		lets = letsReadersIn
	}
	r.Words = pipeline.On(keys, value, grace.Milliseconds(), process, lets)
	return r
}

// Force returns a request that takes a key away if it has one of the values, or whoever holds it if
// none is given. [Forced] and [ReadForced] read the answer.
func Force(key string, grace time.Duration, values ...string) pipeline.Request {
	args := []any{grace.Milliseconds()}
	for _, value := range values {
		args = append(args, value)
	}
	return pipeline.Request{Script: forceScript, Words: pipeline.On([]string{key}, args...), Key: key, Accept: isArray}
}

// Verify returns a request that asks whether all keys hold the value. [Yes] reads the answer.
func Verify(keys []string, value string) pipeline.Request {
	return pipeline.Request{
		Script: verifyScript, Words: pipeline.On(keys, value), Key: onlyKey(keys), Accept: isInteger, Prove: true,
	}
}

// Keep returns a request that gives a key at least a time to live, if it has the value. [Yes] reads
// the answer.
func Keep(key, value string, ttl time.Duration) pipeline.Request {
	return pipeline.Request{
		Script: keepScript, Words: pipeline.On([]string{key}, value, ttl.Milliseconds()), Key: key, Accept: isInteger, Prove: true,
	}
}

// Raise returns a request that brings the counters below a token up to it. [Raised] reads the
// answer.
func Raise(keys []string, value string, token int64, life time.Duration) pipeline.Request {
	return pipeline.Request{
		Script: raiseScript, Words: pipeline.On(keys, value, token, life.Milliseconds()),
		Key: keys[0], Accept: isInteger, Prove: true,
	}
}

// Mend returns a request that brings counters back from one number to another.
func Mend(keys []string, value string, from, to int64, life time.Duration) pipeline.Request {
	return pipeline.Request{
		Script: mendScript, Words: pipeline.On(keys, value, from, to, life.Milliseconds()),
		Key: keys[0], Accept: isInteger,
	}
}

// Ping returns a request for a sign of life.
func Ping() pipeline.Request {
	return pipeline.Request{
		Words: pipeline.Command("PING"), Accept: func(reply any) bool { return reply == "PONG" }, Prove: true,
	}
}

// Claim is what the requests of a lock of one name have in common, encoded once: SET, the key and
// the value, followed by the grace of the release and the end of the SET. The zero Claim has
// nothing.
type Claim struct {
	text              string
	key, value, grace uint16 // where each of them ends
}

// Terms are the TTL of most locks and the grace of their releases, encoded for their claims.
type Terms struct {
	ttl, grace time.Duration
	text       string
	graceEnds  int // where in the text
}

// NewTerms returns the terms.
func NewTerms(ttl, grace time.Duration) Terms {
	first := pipeline.Encode(grace.Milliseconds())
	return Terms{ttl, grace, first + pipeline.Encode("NX", "PX", ttl.Milliseconds()), len(first)}
}

// Claim returns the claim of a lock with this TTL and grace, which may be others than those of the
// terms, together with its key, which is prefix and name, and its value. They share its memory.
func (t *Terms) Claim(prefix, name string, value []byte, ttl, grace time.Duration) (c Claim, claimed, claimant string) {
	if ttl != t.ttl || grace != t.grace {
		terms := NewTerms(ttl, grace)
		t = &terms
	}
	text := pipeline.EncodeBefore(t.text, "SET", prefix+name, value)
	claimed, behindKey := pipeline.NextWord(text[setLength:])
	claimant, behindValue := pipeline.NextWord(behindKey)
	size := len(text) // at most 8 KiB: names, prefixes and values are bounded
	c = Claim{text, uint16(size - len(behindKey)), uint16(size - len(behindValue)), uint16(size - len(t.text) + t.graceEnds)}
	return c, claimed, claimant
}

var setLength = len(pipeline.Encode("SET"))

// set is SET key value NX PX ttl.
func (c *Claim) set() pipeline.Words { return pipeline.Parts(c.text[:c.value], c.text[c.grace:], 6) }

// fenced are the words of acquire.lua.
func (c *Claim) fenced(ttl time.Duration, fencing Fencing) pipeline.Words {
	rest := pipeline.Encode(ttl.Milliseconds(), fencing.Wall, fencing.Life.Milliseconds())
	return pipeline.KeyParts(c.text[setLength:c.value], rest, 5, int(c.key)-setLength)
}

// release are the words of release.lua.
func (c *Claim) release() pipeline.Words {
	return pipeline.KeyParts(c.text[setLength:c.grace], "", 3, int(c.key)-setLength)
}
