package wire

import (
	_ "embed" // the script
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redquorum/redquorum/internal/pipeline"
)

// MaxPermits is the most permits that a semaphore can have: a script looks at all of its slots.
const MaxPermits = 1024

// Semaphore is what the requests for a permit have in common. Slot i of it is the mutex whose key
// is Key, "#" and i, counted from 1.
type Semaphore struct {
	Key     string
	Permits int
}

// Slot returns what follows the name of the semaphore in that of a slot.
func Slot(slot int) string { return "#" + strconv.Itoa(slot) }

// NumberKey returns the key under which nodes keep the number of permits. No lock has such a key.
func (s Semaphore) NumberKey() string { return Reserved + "permits:" + s.Key }

// Queued returns the keys under which waiters for what a request releases are queued.
func Queued(release *pipeline.Request) []string {
	if release.Script == permitReleaseScript {
		return []string{Semaphore{Key: release.Key}.NumberKey()}
	}
	return release.Words.Keys()
}

// Take asks a node for a slot.
type Take struct {
	Semaphore
	Value   string
	TTL     time.Duration
	Grace   time.Duration // of a waiter that gets a slot the caller gives up
	Slot    int           // the slot to try first
	Only    bool          // take no other, and give up others that the value has
	Fencing Fencing
}

// Request returns the request. [Grant] and [ReadChoice] read the answer.
func (t *Take) Request() pipeline.Request {
	only := 0
	if t.Only {
		only = 1
	}
	args := t.Fencing.appendTo([]any{
		t.Value, t.TTL.Milliseconds(), t.Grace.Milliseconds(), t.Permits, t.Slot, only,
	})
	permits, fencing := t.Permits, t.Fencing
	return pipeline.Request{
		Script: permitScript, Words: pipeline.On([]string{t.Key}, args...), Key: t.Key, Prove: true,
		Accept: func(reply any) bool { return isChoice(reply, permits, fencing) || isOtherNumber(reply) },
	}
}

// Choice is a node's answer to a request for any of several, such as the slots of a semaphore. They
// are counted from 1.
type Choice struct {
	Got   int    // what the caller now holds; 0 for nothing
	Other int    // the number of permits that the node knows instead of the caller's, or 0
	free  string // for each, 1 if it is free
}

// IsFree reports whether the node said that one of them is free.
func (c *Choice) IsFree(i int) bool { return i <= len(c.free) && c.free[i-1] == '1' }

// Knows reports whether the node told about one of them.
func (c *Choice) Knows(i int) bool { return i <= len(c.free) }

// IsFull reports whether the node gave nothing and has nothing free.
func (c *Choice) IsFull() bool { return c.Got == 0 && c.free != "" && !strings.Contains(c.free, "1") }

// ReadChoice reads the answer to [Take].
func ReadChoice(reply any) Choice {
	answers := reply.([]any)
	if len(answers) == 2 {
		return Choice{Other: int(answers[1].(int64))}
	}
	return Choice{Got: int(answers[0].(int64)), free: string(answers[2].([]byte))}
}

// isChoice reports whether a reply says which of so many the caller has, and which are free.
func isChoice(reply any, most int, fencing Fencing) bool {
	answers, _ := reply.([]any)
	if len(answers) != 3 || !isChosen(answers[0], answers[1], most, fencing) {
		return false
	}
	free, _ := answers[2].([]byte)
	for _, one := range free {
		if one != '0' && one != '1' {
			return false
		}
	}
	return len(free) == most
}

// isChosen reports whether an answer begins with one of so many and its fence, or with 0 and 0.
func isChosen(chosen, fence any, most int, fencing Fencing) bool {
	n, ok := chosen.(int64)
	if n == 0 {
		return ok && fence == int64(0)
	}
	return n > 0 && n <= int64(most) && fencing.grants(fence)
}

func isOtherNumber(reply any) bool {
	answers, _ := reply.([]any)
	if len(answers) != 2 || answers[0] != int64(-1) {
		return false
	}
	n, ok := answers[1].(int64)
	return ok && n > 0 && n <= MaxPermits
}

// AwaitPermit asks a node for any slot, or for a place on the semaphore's wait list.
type AwaitPermit struct {
	Semaphore
	Value   string
	TTL     time.Duration
	Slot    int           // the slot to try first
	Process string        // on the wait list; empty for not waiting
	Waited  time.Duration // so far; the list is ordered by it
	Fencing Fencing
}

// Request returns the request. [Grant] and [ReadPermit] read the answer.
func (w *AwaitPermit) Request() pipeline.Request {
	args := w.Fencing.appendTo([]any{
		w.Value, w.TTL.Milliseconds(), w.Permits, w.Slot, w.Process, w.Waited.Microseconds(), maxWaiting,
	})
	permits, fencing := w.Permits, w.Fencing
	return pipeline.Request{
		Script: permitWaitScript, Words: pipeline.On([]string{w.Key}, args...), Key: w.Key, Prove: true,
		Accept: func(reply any) bool { return isPermitReply(reply, permits, fencing) },
	}
}

// ReadPermit reads the answer to [AwaitPermit].
func ReadPermit(reply any) WaitReply {
	answers := reply.([]any)
	switch slot := answers[0].(int64); slot {
	case -1:
		return WaitReply{Number: int(answers[1].(int64))}
	case 0:
		return WaitReply{Left: spanOf(answers[1].(int64))}
	default:
		return WaitReply{Granted: true, Slot: int(slot)}
	}
}

// isPermitReply reports whether permit_wait.lua can give this reply about so many slots.
func isPermitReply(reply any, permits int, fencing Fencing) bool {
	answers, _ := reply.([]any)
	switch len(answers) {
	case 2:
		return isOtherNumber(reply) || answers[0] != int64(0) && isChosen(answers[0], answers[1], permits, fencing)
	case 3:
		return answers[0] == int64(0) && isInteger(answers[1]) && isInteger(answers[2])
	default:
		return false
	}
}

// GiveBack returns a request that releases what a value has of a semaphore, except for one slot (0
// for none), or hands it over. Held is the slot that the caller held as a permit, which somebody
// may be adopting from it; 0 for none. Process names the caller on the wait list that it leaves;
// "" if it is on none. [Released] reads the answer.
func (s Semaphore) GiveBack(value string, grace time.Duration, keep, held int, process string) pipeline.Request {
	args := []any{value, grace.Milliseconds(), s.Permits, keep, held}
	if process != "" {
		args = append(args, process)
	}
	return pipeline.Request{
		Script: permitReleaseScript, Words: pipeline.On([]string{s.Key}, args...), Key: s.Key, Accept: isInteger,
	}
}

// AddPermit adds a permit: a slot of a semaphore, its value and its TTL.
func (e *Extension) AddPermit(s Semaphore, slot int, value string, ttl time.Duration) {
	// The key is what the release of the permit names, so that neither overtakes the other.
	e.keys, e.several = []string{s.Key}, true
	e.words.AddTexts(s.Key, value, fmt.Sprintf("%s#%d %d %d", e.heals, slot, s.Permits, ttl.Milliseconds()))
}

// TakeAny asks a node for one of several locks.
type TakeAny struct {
	Keys    []string
	Value   string
	TTL     time.Duration
	Grace   time.Duration // of a waiter that gets a key the caller gives up
	Only    int           // which to take, counted from 1, or 0 for the first that is free
	Fencing Fencing
}

// Request returns the request. [Grant] and [ReadChoice] read the answer.
func (t *TakeAny) Request() pipeline.Request {
	keys, fencing := len(t.Keys), t.Fencing
	args := fencing.appendTo([]any{t.Value, t.TTL.Milliseconds(), t.Grace.Milliseconds(), t.Only})
	return pipeline.Request{
		Script: anyScript, Words: pipeline.On(t.Keys, args...), Key: onlyKey(t.Keys), Prove: true,
		Accept: func(reply any) bool { return isChoice(reply, keys, fencing) },
	}
}
