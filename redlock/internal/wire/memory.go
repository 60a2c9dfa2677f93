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

// Entry changes what a master knows of its cluster, if it is still what the caller saw. The zero
// Entry changes nothing.
type Entry struct {
	Marker   string // the new marker
	Register string // what follows the first line of the new register; empty to leave it as it is
	Since    string // its first line; empty for the node's time
	Due      int64  // when it may be made, by the node's time: milliseconds since 1970
	Latest   int64  // until when it may be made; 0 for no limit
}

// Members returns a request that changes a marker and a register, or with the zero Entry only reads
// them. The first two arguments are what the caller knows. [ReadMembers] reads the answer.
func Members(marker, register string, change Entry) pipeline.Request {
	return pipeline.Request{
		Script: membersScript, Key: pipeline.MemoryKey,
		Words: pipeline.On(
			[]string{pipeline.MemoryKey, pipeline.RegisterKey},
			marker, change.Marker, register, change.Register, change.Since, change.Due, change.Latest,
		),
		Accept: func(reply any) bool {
			_, _, _, ok := ReadMembers(reply)
			return ok
		},
	}
}

// ReadMembers reads the answer to [Members]: the current marker and register, and the node's time
// in milliseconds since 1970. It reports false for anything else.
func ReadMembers(reply any) (marker, register string, now int64, ok bool) {
	entries, _ := reply.([]any)
	if len(entries) != 3 {
		return "", "", 0, false
	}
	text, isText := entries[1].([]byte)
	marker, now, ok = ReadMemory([]any{entries[0], entries[2]})
	return marker, string(text), now, ok && isText
}
