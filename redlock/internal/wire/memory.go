package wire

import (
	"strconv"

	"github.com/redquorum/redquorum/internal/pipeline"
)

// Swap changes a node's memory marker if it is still what the caller saw: to Begin, the end of the
// wait if there is one, and Rest. The zero Swap changes nothing.
type Swap struct {
	Begin string // the state, with the end of its time if that is known
	Rest  string
	Wait  int64 // milliseconds until the end of new and lost, by the node; 0 if Begin says it
	Due   int64 // when it may be made, by the node's time: milliseconds since 1970
}

// Memory returns a request that changes a marker, or with the zero Swap only reads it. Seen is the
// marker that the caller knows. [ReadMemory] reads the answer.
func Memory(seen string, change Swap) pipeline.Request {
	return pipeline.Request{
		Script: memoryScript, Key: pipeline.MemoryKey,
		Words: pipeline.On([]string{pipeline.MemoryKey}, seen, change.Begin, change.Rest, change.Wait, change.Due),
		Accept: func(reply any) bool {
			_, _, ok := ReadMemory(reply)
			return ok
		},
	}
}

// MaxMarkerTime is the latest time that a marker may have: the largest number that is exact in Lua.
const MaxMarkerTime = 1 << 53

// ReadMemory reads the answer to [Memory]: the current marker, and the node's time in milliseconds
// since 1970. It reports false for anything else.
func ReadMemory(reply any) (marker string, now int64, ok bool) {
	entries, _ := reply.([]any)
	if len(entries) != 2 {
		return "", 0, false
	}
	text, isText := entries[0].([]byte)
	time, _ := entries[1].([]byte)
	now, err := strconv.ParseInt(string(time), 10, 64)
	return string(text), now, isText && err == nil && now > 0 && now <= MaxMarkerTime
}

// GetMarker returns a request that only reads a marker. [ReadMarker] reads the answer.
func GetMarker() pipeline.Request {
	return pipeline.Request{Words: pipeline.Command("GET", pipeline.MemoryKey), Accept: isMarker}
}

func isMarker(reply any) bool {
	_, ok := reply.([]byte)
	return ok || reply == nil
}

// ReadMarker reads the answer to [GetMarker].
func ReadMarker(reply any) *pipeline.Proof {
	text, _ := reply.([]byte)
	return &pipeline.Proof{Marker: string(text)}
}
