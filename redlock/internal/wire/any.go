package wire

import (
	_ "embed" // the script
	"time"

	"github.com/redquorum/redquorum/internal/pipeline"
)

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
