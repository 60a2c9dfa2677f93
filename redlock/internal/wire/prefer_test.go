package wire

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/redlock/internal/quorum"
)

// The vote for a slot goes to the holder of that slot, and that of another one to a waiter.
func TestTheHolderOfAPermitIsPreferredForItsSlot(t *testing.T) {
	s := newServer(t)
	s.listen(t)
	s.connect(t)
	semaphore := Semaphore{permitName, 2}
	slot := func(n string) string { return s.get(permitName + "#" + n) }
	for n, value := range []string{pairValues[2], pairValues[3]} {
		take := &Take{Semaphore: semaphore, Value: value, TTL: pairTTL, Grace: pairGrace, Slot: n + 1, Only: true}
		assert.Equal(t, quorum.Granted, Grant.Vote(s.ask(take.Request())))
	}
	wait := &AwaitPermit{Semaphore: semaphore, Value: pairValues[0], TTL: pairTTL, Slot: 1, Process: "alive"}
	s.ask(wait.Request())
	holder := pairValues[5]
	prefer := &Prefer{Keys: []string{permitName}, Value: holder, Process: "dead", TTL: 30 * time.Second, Slot: 2, Permits: 2}
	s.ask(prefer.Request())
	in, ok := ReadPermits(s.ask(InspectPermits(permitName)))
	assert.True(t, ok)
	assert.Equal(t, 1, in.Waiting, "a holder does not wait")
	assert.Len(t, in.Waiters, 1)

	s.ask(semaphore.GiveBack(pairValues[2], pairGrace, 0, 1, ""))
	assert.Equal(t, pairValues[0], slot("1"))
	assert.Equal(t, []string{"=dead:" + holder}, s.members(permitList))
	s.ask(semaphore.GiveBack(pairValues[3], pairGrace, 0, 2, ""))
	assert.Equal(t, holder, slot("2"))
	assert.LessOrEqual(t, s.left(permitName+"#2"), int64(30_000), "the vote ends when its last extension would have")
	assert.Empty(t, s.members(permitList))
}

// A node forgot the number of permits, and a client with another one had the slot for a moment.
func TestTheHolderOfAPermitIsNotPreferredUnderAnotherNumber(t *testing.T) {
	s := newServer(t)
	s.connect(t)
	wrong := Semaphore{permitName, 5}
	take := &Take{Semaphore: wrong, Value: pairValues[2], TTL: pairTTL, Grace: pairGrace, Slot: 1, Only: true}
	require.Equal(t, quorum.Granted, Grant.Vote(s.ask(take.Request())))
	prefer := &Prefer{Keys: []string{permitName}, Value: pairValues[5], Process: "dead", TTL: 30 * time.Second, Slot: 1, Permits: 2}
	s.ask(prefer.Request())
	s.ask(wrong.GiveBack(pairValues[2], pairGrace, 0, 1, ""))
	assert.Empty(t, s.do("KEYS", "*"), "neither the slot nor the number")
}

// Nobody gets a vote who has lost the lock, left, or died before it was given back.
func TestAHolderIsPreferredOnlyWhileItMayHold(t *testing.T) {
	s := newServer(t)
	s.connect(t)
	keys, holder := []string{"a"}, pairValues[1]
	for what, end := range map[string]func(){
		"released": func() { s.ask(Release(&Claim{}, keys, holder, pairGrace, "dead")) },
		"adopted":  func() { s.ask(Adopt("a", holder, pairValues[3], pairTTL, Fencing{})) },
		"forced":   func() { s.ask(Force("a", pairGrace, holder)) },
		"dead":     func() { time.Sleep(30 * time.Millisecond) },
	} {
		ttl := pairTTL
		if what == "dead" {
			ttl = 20 * time.Millisecond
		}
		s.do("SET", "a", pairValues[2], "PX", 60_000)
		s.ask((&Prefer{Keys: keys, Value: holder, Process: "dead", TTL: ttl}).Request())
		assert.Equal(t, []string{"=dead:" + holder}, s.members(waitKey+"a"))
		end()
		s.ask(Release(&Claim{}, keys, pairValues[2], pairGrace, ""))
		assert.Empty(t, s.get("a"), what)
		assert.Empty(t, s.members(waitKey+"a"), what)
		assert.Empty(t, s.do("KEYS", "redquorum:wait*"), what)
	}
}
