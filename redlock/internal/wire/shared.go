package wire

import (
	"time"

	"github.com/redquorum/redquorum/internal/pipeline"
)

const intentKey = Reserved + "intent:" // followed by the lock's key

// Marker is the value of a key that readers hold.
const Marker = "READERSHOLDTHISLOCKTOGETHE|readers"

// AcquireShared returns a request that makes the value a reader of a key. Turn says that a release
// has handed it a vote: then no writer's intent keeps it out. Process names the caller on the wait
// list that it leaves; "" if it is on none. [Grant] reads the answer.
func AcquireShared(key, value string, ttl time.Duration, turn bool, process string, fencing Fencing) pipeline.Request {
	args := fencing.appendTo([]any{value, ttl.Milliseconds(), turnFlag(turn), process})
	return pipeline.Request{
		Script: sharedAcquireScript, Words: pipeline.On([]string{key}, args...), Key: key, Accept: fencing.isVote(), Prove: true,
	}
}

// SharedRequest returns the request of a reader, for the only key. Turn is that of [AcquireShared].
// [Grant] and [ReadWait] read the answer.
func (w *Wait) SharedRequest(turn bool) pipeline.Request {
	fencing := w.Fencing
	args := fencing.appendTo([]any{
		w.Value, w.TTL.Milliseconds(), w.Grace.Milliseconds(), turnFlag(turn), w.Process, w.Waited.Microseconds(),
		maxWaiting, w.Others,
	})
	return pipeline.Request{
		Script: sharedWaitScript, Words: pipeline.On(w.Keys[:1], args...), Key: w.Keys[0], Prove: true,
		Accept: func(reply any) bool { return isWaitReply(reply, 1, fencing) },
	}
}

func turnFlag(turn bool) string {
	if turn {
		return "1"
	}
	return ""
}

// VerifyShared returns a request that asks whether the value is a reader of a key. [Yes] reads the
// answer.
func VerifyShared(key, value string) pipeline.Request {
	return pipeline.Request{
		Script: sharedVerifyScript, Words: pipeline.On([]string{key}, value), Key: key, Accept: isInteger, Prove: true,
	}
}

// ReleaseShared returns a request that ends a read, or the wait for one: [Release] for readers.
func ReleaseShared(key, value string, grace time.Duration, process string) pipeline.Request {
	args := []any{value, grace.Milliseconds()}
	if process != "" {
		args = append(args, process)
	}
	return pipeline.Request{
		Script: sharedReleaseScript, Words: pipeline.On([]string{key}, args...), Key: key, Accept: isInteger,
	}
}

// RaiseShared returns a request that brings the counter of a reader's lock up to a token, unless it
// is there or past it. [Raised] reads the answer.
func RaiseShared(key, value string, token int64, life time.Duration) pipeline.Request {
	return pipeline.Request{
		Script: sharedRaiseScript, Words: pipeline.On([]string{key}, value, token, life.Milliseconds()), Key: key,
		Accept: isInteger, Prove: true,
	}
}

// Intend returns a request that keeps new readers out for the life of an intent, and does not take
// the key: a writer that waits for its coordinator does not want the votes of others yet.
func Intend(key, value string, life time.Duration) pipeline.Request {
	return pipeline.Request{
		Words: pipeline.Command("SET", intentKey+key, value, "PX", life.Milliseconds()), Key: key,
		Accept: func(reply any) bool { return reply == "OK" }, Prove: true,
	}
}

// ReleaseAnnounced is [Release] for a writer that may have kept readers out: it lets them in.
func ReleaseAnnounced(keys []string, value string, grace time.Duration, process string) pipeline.Request {
	r := Release(&Claim{}, keys, value, grace, process)
	r.Words = pipeline.On(keys, value, grace.Milliseconds(), process, letsReadersIn)
	return r
}

// letsReadersIn makes release.lua withdraw the intents of its caller.
const letsReadersIn = "announced"

// Announce returns a request that takes a key for a writer that waits, or keeps new readers out for
// the life of its intent. [Grant] reads the answer.
func Announce(key, value string, ttl, life time.Duration, fencing Fencing) pipeline.Request {
	args := fencing.appendTo([]any{value, ttl.Milliseconds(), life.Milliseconds()})
	return pipeline.Request{
		Script: announceScript, Words: pipeline.On([]string{key}, args...), Key: key, Accept: fencing.isVote(), Prove: true,
	}
}
