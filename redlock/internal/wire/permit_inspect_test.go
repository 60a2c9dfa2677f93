package wire

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func (s *scriptServer) inspectPermits() Permits {
	s.t.Helper()
	reply, err := s.run([]string{"a"}, nil, permitInspects...)
	require.NoError(s.t, err)
	require.True(s.t, InspectPermits("a").Accept(reply))
	p, ok := ReadPermits(reply)
	require.True(s.t, ok, "%v", reply)
	return p
}

func TestASemaphoreIsToldSlotBySlot(t *testing.T) {
	s := newScriptServer(t)
	assert.Empty(t, s.inspectPermits().Slots)
	s.do("SET", "redquorum:permits:a", "3")
	s.do("SET", "a#1", "value|owner", "PX", 60000)
	s.do("SET", "redquorum:fence:a#1", "7")
	s.do("SET", "a#3", "for ever")
	s.do("SET", "a#4", "beyond the number")
	s.do("SET", "redquorum:fence:a#2", "8")
	s.do("ZADD", "redquorum:permit:wait:a", 2, "p:v|second", 1, "p:v", 3, "p:v|third|x:y")
	p := s.inspectPermits()
	require.Len(t, p.Slots, 3)
	assert.InDelta(t, time.Minute, p.Slots[0].TTL, float64(30*time.Second))
	p.Slots[0].TTL = 0
	assert.Equal(t, []Inspection{{Held: true, Value: "value|owner", Fence: 7}, {Fence: 8}, {Held: true, Value: "for ever", TTL: -time.Millisecond}}, p.Slots)
	assert.Equal(t, 3, p.Waiting)
	assert.Equal(t, []string{"", "second", "third|x:y"}, p.Waiters)
	for i := range 40 {
		s.do("ZADD", "redquorum:permit:wait:a", 10+i, fmt.Sprint("p:w", i))
	}
	p = s.inspectPermits()
	assert.Equal(t, 43, p.Waiting)
	assert.Len(t, p.Waiters, 16)
	s.do("SET", "redquorum:permits:a", MaxPermits)
	assert.Len(t, s.inspectPermits().Slots, MaxPermits)
}

func TestASemaphoreIsToldWhateverOthersWrote(t *testing.T) {
	s := newScriptServer(t)
	for _, key := range []string{"a", "redquorum:permits:a", "redquorum:permit:wait:a", "a#1", "redquorum:fence:a#1"} {
		for _, what := range append(foreign, []any{"SET", "0"}, []any{"SET", "1025"}, []any{"SET", "2.5"}, []any{"SET", "0x2"}) {
			s.do("FLUSHALL")
			s.do("SET", "redquorum:permits:a", "2")
			if key == "redquorum:permits:a" {
				s.do("DEL", key)
			}
			s.spoil(key, what, false)
			before := s.do("DUMP", key)
			p := s.inspectPermits()
			if key == "redquorum:permits:a" {
				assert.Empty(t, p.Slots, "%v", what)
			} else {
				assert.Len(t, p.Slots, 2, "%s %v", key, what)
			}
			assert.Equal(t, before, s.do("DUMP", key))
		}
	}
}

func TestWhatIsNoAnswerAboutPermitsIsRefused(t *testing.T) {
	for _, reply := range []any{
		nil, "OK",
		[]any{},
		[]any{int64(1), int64(0), []any{}, []any{}},
		[]any{int64(-1), int64(0), []any{}, []any{}},
		[]any{int64(1), int64(0), []any{}, []any{nil, int64(-2)}},
		[]any{int64(0), int64(0), []any{}},
	} {
		_, ok := ReadPermits(reply)
		assert.False(t, ok, "%v", reply)
	}
	_, ok := ReadPermits([]any{int64(1), int64(0), nil, []any{nil, int64(-2), nil}})
	assert.True(t, ok)
}
