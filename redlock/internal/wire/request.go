package wire

import (
	"strconv"
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

func (f Fencing) appendTo(args []any) []any {
	if f.Life == 0 {
		return args
	}
	return append(args, f.Wall, f.Life.Milliseconds())
}

// onlyKey returns the key that a script writes, or "" if it writes several.
func onlyKey(keys []any) string {
	if len(keys) > 1 {
		return ""
	}
	return keys[0].(string)
}

// Acquire returns a request that takes all keys or none: SET key value NX PX ttl, or a script that
// does the same for several keys or with fencing. [Grant] reads the answer.
func Acquire(keys []any, value any, ttl time.Duration, fencing Fencing) pipeline.Request {
	if len(keys) == 1 && fencing.Life == 0 {
		return pipeline.Request{
			Name: "SET", Args: []any{keys[0], value, "NX", "PX", ttl.Milliseconds()},
			Key: keys[0].(string), Accept: isSetReply, Prove: true,
		}
	}
	args := fencing.appendTo([]any{value, ttl.Milliseconds()})
	return pipeline.Request{
		Script: acquireScript, Args: acquireScript.Args(nil, keys, args...),
		Key: onlyKey(keys), Accept: isGrant, Prove: true,
	}
}

// Join returns a request that makes one lock of several: parts are their values, in the order of
// the keys. [Grant] reads the answer.
func Join(keys []any, value any, ttl time.Duration, parts []any, fencing Fencing) pipeline.Request {
	args := fencing.appendTo(append([]any{value, ttl.Milliseconds()}, parts...))
	return pipeline.Request{
		Script: joinScript, Args: joinScript.Args(nil, keys, args...), Accept: isGrant, Prove: true,
	}
}

// Adopt returns a request that swaps the value of a key. [Grant] reads the answer.
func Adopt(key, from, to any, ttl time.Duration, fencing Fencing) pipeline.Request {
	args := fencing.appendTo([]any{from, to, ttl.Milliseconds()})
	return pipeline.Request{
		Script: adoptScript, Args: adoptScript.Args(nil, []any{key}, args...),
		Key: key.(string), Accept: isGrant, Prove: true,
	}
}

// Restore returns a request that undoes a swap: to is the value that the key was given. Grace is in
// milliseconds. Reused says that the value may be used again. [Yes] reads the answer.
func Restore(key, to, grace any, reused bool) pipeline.Request {
	script := restoreScript
	if reused {
		script = orderedRestoreScript
	}
	return pipeline.Request{
		Script: script, Args: script.Args(nil, []any{key}, to, grace), Key: key.(string), Accept: isInteger,
	}
}

// Forget returns a request that removes the note of a swap that stands. [Yes] reads the answer.
func Forget(key, to string) pipeline.Request {
	note := adoptionNote + key + ":" + to
	return pipeline.Request{Script: forgetScript, Args: forgetScript.Args(nil, []any{note}), Key: key, Accept: isInteger}
}

// Release returns a request that deletes the keys that hold the value, or hands them over. Grace is
// in milliseconds. Process names the caller on the wait lists that it leaves; "" if it is on none.
// Reused says that the value may be used again. [Released] reads the answer.
func Release(keys []any, value, grace any, process string, reused bool) pipeline.Request {
	script := releaseScript
	if reused {
		script = orderedReleaseScript
	}
	args := script.Args(make([]any, 0, 6), keys, value, grace)
	if process != "" {
		args = append(args, process)
	}
	return pipeline.Request{Script: script, Args: args, Key: keys[0].(string), Accept: isInteger}
}

// ReleasedKeys returns the keys of a request that [Release] returned.
func ReleasedKeys(r *pipeline.Request) []any {
	return r.Args[2:][:r.Args[1].(int)] // digest and number come first
}

// Force returns a request that takes a key from whoever holds it. Grace is in milliseconds.
func Force(key string, grace any) pipeline.Request {
	return pipeline.Request{Script: forceScript, Args: forceScript.Args(nil, []any{key}, grace), Key: key, Accept: isInteger}
}

// Verify returns a request that asks whether all keys hold the value. [Yes] reads the answer.
func Verify(keys []any, value any) pipeline.Request {
	return pipeline.Request{Script: verifyScript, Args: verifyScript.Args(nil, keys, value), Accept: isInteger, Prove: true}
}

// Raise returns a request that brings the counters below a token up to it. [Raised] reads the
// answer.
func Raise(keys []any, value any, token int64, life time.Duration) pipeline.Request {
	return pipeline.Request{
		Script: raiseScript, Key: keys[0].(string), Accept: isInteger, Prove: true,
		Args: raiseScript.Args(nil, keys, value, strconv.FormatInt(token, 10), life.Milliseconds()),
	}
}

// Mend returns a request that brings counters back from one number to another.
func Mend(keys []any, value any, from, to int64, life time.Duration) pipeline.Request {
	return pipeline.Request{
		Script: mendScript, Key: keys[0].(string), Accept: isInteger,
		Args: mendScript.Args(nil, keys, value, strconv.FormatInt(from, 10), strconv.FormatInt(to, 10), life.Milliseconds()),
	}
}

// Ping returns a request for a sign of life.
func Ping() pipeline.Request {
	return pipeline.Request{Name: "PING", Accept: func(reply any) bool { return reply == "PONG" }, Prove: true}
}
