package wire

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/redlock/internal/quorum"
)

// checkExtended reads a reply as an answer to an extension of a lock with two keys, of one with one
// key and of a permit.
func checkExtended(t *testing.T, reply any) {
	if !isExtended(reply) {
		require.Zero(t, ReadExtended(reply))
		return
	}
	items, _ := reply.([]any)
	next := func(v quorum.Vote, touched bool, keys int) {
		t.Helper()
		mine := items[:min(keys, len(items))]
		items = items[len(mine):]
		all := len(mine) == keys
		for _, item := range mine {
			all = all && item == int64(1)
			require.False(t, (item == int64(1) || item == int64(2)) && !touched)
		}
		require.Equal(t, all || reply == allExtended, v == quorum.Granted, "%#v", reply)
	}
	e := ReadExtended(reply)
	for _, keys := range []int{2, 1} {
		v, touched, err := e.Next(keys)
		require.False(t, err != nil && v != quorum.Failed)
		next(v, touched, keys)
	}
	v, _, err := e.NextPermit()
	require.False(t, err != nil && v != quorum.Failed)
	next(v, true, 2)
}

// checkReports reads a reply as what a node tells of a lock, of a semaphore, of the leaders of a
// name and of its memory.
func checkReports(t *testing.T, reply any) {
	items, _ := reply.([]any)
	if in, ok := ReadInspect(reply); ok {
		checkHolder(t, items, in)
		for i, reader := range in.Readers {
			requireSpan(t, items[5].([]any)[2*i+1].(int64), reader.TTL)
		}
	}
	if p, ok := ReadPermits(reply); ok {
		require.LessOrEqual(t, len(p.Slots), MaxPermits)
		for i, slot := range p.Slots {
			checkHolder(t, items[3].([]any)[3*i:], slot)
		}
	}
	if answer, ok := ReadRecorded(reply); ok {
		if ttl, _ := items[1].(int64); answer.Value != "" {
			requireSpan(t, ttl, answer.TTL)
		}
		for _, entry := range answer.Entries {
			require.Positive(t, entry.Term)
			require.NotEmpty(t, entry.Value)
		}
	}
	if _, now, ok := ReadMemory(reply); ok {
		require.True(t, now > 0 && now <= MaxMarkerTime)
		require.Len(t, items, 2)
	}
	if marker := ReadMarker(reply); !isMarker(reply) {
		require.Empty(t, marker.Marker)
	}
}

func checkHolder(t *testing.T, items []any, in Inspection) {
	value, held := items[0].([]byte)
	require.Equal(t, held, in.Held)
	require.Equal(t, string(value), in.Value)
	if ttl, _ := items[1].(int64); held {
		requireSpan(t, ttl, in.TTL)
	} else {
		require.Zero(t, in.TTL)
	}
}

// requireSpan requires that a time is what a reply says, or at the limit of what can be said.
func requireSpan(t *testing.T, millis int64, span time.Duration) {
	t.Helper()
	if millis < 0 {
		require.Negative(t, span, "%d ms", millis)
		return
	}
	require.Equal(t, min(millis, math.MaxInt64/int64(time.Millisecond)), span.Milliseconds())
}
