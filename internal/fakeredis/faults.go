package fakeredis

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/redquorum/redquorum/clock"
)

// network lies between the clients and the process. It has the faults.
type network struct {
	request      func(*session) time.Duration // delay of a command, nil for none
	reply        func(*session) time.Duration // delay of a reply, nil for none
	loseRequests int                          // commands to lose, each with its connection
	loseReplies  int                          // replies to lose, each with its connection
	cutAfter     int                          // commands until one has no reply; 0: never
	cutReply     int                          // bytes of the next reply that pass, if cutReplySet
	cutReplySet  bool
	lost         int  // what these have lost or cut
	mute         bool // nothing passes
	muteReplies  bool // nothing passes to the client
	replyRaw     func(cmd []string) []byte
	changed      chan struct{} // closed and renewed when a mute ends; Dial waits for it
}

// carriesReplies reports whether what the server sends, resets included, reaches the clients.
func (f *network) carriesReplies() bool { return !f.mute && !f.muteReplies }

// Delay makes each command arrive request() after it was written, and each reply, including the
// messages of subscriptions, arrive reply() after it was made. The order on a connection stays the
// same, and commands written together travel together. A nil function means no delay. What is in
// transit keeps its delay; a dial takes no time. The functions are called without a lock, by one
// goroutine per connection.
func (n *Node) Delay(request, reply func() time.Duration) {
	each := func(delay func() time.Duration) func(*session) time.Duration {
		if delay == nil {
			return nil
		}
		return func(*session) time.Duration { return delay() }
	}
	n.change(func() { n.network.request, n.network.reply = each(request), each(reply) })
}

// DelayBetween is [Node.Delay] by a random time from least to most. Each connection has random
// numbers of its own, which the seed and the client id decide.
func (n *Node) DelayBetween(least, most time.Duration, seed uint64) {
	delay := func(s *session) time.Duration {
		if s.random == nil {
			s.random = rand.New(rand.NewPCG(seed, uint64(s.id)))
		}
		return least + time.Duration(s.random.Int64N(int64(most-least)+1))
	}
	n.change(func() { n.network.request, n.network.reply = delay, delay })
}

// Lost returns how many commands and replies were lost or cut by [Node.LoseRequests],
// [Node.LoseReplies], [Node.CutAfterWrite] and [Node.CutReply].
func (n *Node) Lost() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.network.lost
}

// LoseRequests loses the next count commands without executing them. TCP loses nothing inside a
// connection, so each loss resets its connection and also loses everything behind the command.
func (n *Node) LoseRequests(count int) { n.change(func() { n.network.loseRequests = count }) }

// LoseReplies executes the next count commands and loses their replies, each with its connection.
func (n *Node) LoseReplies(count int) { n.change(func() { n.network.loseReplies = count }) }

// CutAfterWrite closes the connection of the nth command from now (1 is the next) after executing
// it and before its reply. 0 cancels it.
func (n *Node) CutAfterWrite(nth int) { n.change(func() { n.network.cutAfter = nth }) }

// CutReply lets that many bytes of the next reply pass, then closes the connection.
func (n *Node) CutReply(bytes int) {
	n.change(func() { n.network.cutReply, n.network.cutReplySet = max(bytes, 0), true })
}

// Mute makes all bytes vanish, in both directions, and makes dials wait. A writer blocks once the
// buffers are full. When the mute ends, connections that lost something are reset, because they
// cannot go on; the others go on.
func (n *Node) Mute(on bool) { n.setMute(&n.network.mute, on) }

// MuteReplies makes only the bytes towards the clients vanish: commands are executed and dials
// succeed. It ends as [Node.Mute] does.
func (n *Node) MuteReplies(on bool) { n.setMute(&n.network.muteReplies, on) }

func (n *Node) setMute(mute *bool, on bool) {
	n.change(func() {
		if *mute && !on {
			n.healLocked()
		}
		*mute = on
	})
}

// healLocked ends both mutes and resets what cannot go on.
func (n *Node) healLocked() {
	n.network.mute, n.network.muteReplies = false, false
	close(n.network.changed)
	n.network.changed = make(chan struct{})
	for _, s := range n.sessions {
		if s.lossy || s.dead {
			n.resetLocked(s)
		}
	}
}

// RefuseWith answers the named commands with that error ("READONLY You can't write against a read
// only replica.") and does not execute them, in scripts either. Without names it refuses every
// command that a client sends. The text "" lifts the refusal of the named commands, or without
// names every refusal.
func (n *Node) RefuseWith(text string, names ...string) {
	n.change(func() {
		if len(names) == 0 {
			n.rules.refuseAll = text
			if text == "" {
				clear(n.rules.refuse)
			}
		}
		for _, name := range names {
			n.rules.refuse[strings.ToLower(name)] = text
			if text == "" {
				delete(n.rules.refuse, strings.ToLower(name))
			}
		}
	})
}

// FailScript makes the nth script from now (1 is the next) fail with that error instead of running;
// 0 cancels it. [Node.Ran] counts scripts.
func (n *Node) FailScript(nth int, text string) {
	n.change(func() { n.rules.scripts.left, n.rules.scripts.text = nth, text })
}

// FailCall makes the nth command that a script calls from now (1 is the next) fail with that error,
// and so ends its script in the middle, unless that catches it; 0 cancels it. [Node.Ran] counts
// these commands.
func (n *Node) FailCall(nth int, text string) {
	n.change(func() { n.rules.calls.left, n.rules.calls.text = nth, text })
}

// Ran returns how many scripts have run or failed, and how many commands they have called.
func (n *Node) Ran() (scripts, calls int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.rules.scripts.ran, n.rules.calls.ran
}

// Inject puts raw bytes into the reply stream of every open connection, between two replies.
func (n *Node) Inject(raw []byte) {
	raw = slices.Clone(raw)
	n.change(func() {
		for _, s := range n.sessions {
			s.replyRawLocked(raw)
		}
	})
}

// ReplyRaw replaces the reply to each command by what script returns. The command is still
// executed. Nil bytes leave the reply as it is, empty ones suppress it. A nil script ends it. The
// script is called before the command is executed, without a lock, by one goroutine per connection.
func (n *Node) ReplyRaw(script func(cmd []string) []byte) {
	n.change(func() { n.network.replyRaw = script })
}

// SetClock sets the node's wall clock to offset ahead of its base clock's, and runs it at rate from
// there: a clock that steps, or is too fast or too slow. Keys keep the wall-clock time at which
// they expire, as in Redis.
func (n *Node) SetClock(offset time.Duration, rate float64) {
	n.change(func() { n.wall = newWall(n.clk, offset, rate) })
}

// Disconnect resets all connections. The process goes on.
func (n *Node) Disconnect() { n.change(n.resetAllLocked) }

func (n *Node) requestDelay() func(*session) time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.network.request
}

// wall is a node's own wall clock: it showed shown at since, and has run at rate from then on.
type wall struct {
	base  clock.Clock
	since clock.Instant
	shown int64 // Unix nanoseconds
	rate  float64
}

// newWall returns a clock that is now offset ahead of the base's wall clock, and runs at rate.
func newWall(base clock.Clock, offset time.Duration, rate float64) wall {
	return wall{base: base, since: base.Now(), shown: base.Wall().UnixNano() + int64(offset), rate: rate}
}

// micros returns the Unix time in whole microseconds, as Redis reads it.
func (w *wall) micros() int64 {
	elapsed := w.base.Now().Sub(w.since)
	if w.rate != 1 { // exact if the clock is right
		elapsed = time.Duration(float64(elapsed) * w.rate)
	}
	return (w.shown + int64(elapsed)) / int64(time.Microsecond)
}
