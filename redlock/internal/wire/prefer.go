package wire

import (
	"time"

	"github.com/redquorum/redquorum/internal/pipeline"
)

// Prefer is a request of a holder that a node refused to extend: the node gives it the vote before
// all who wait, once that is given back. Whatever it answers is no vote.
type Prefer struct {
	Keys    []string // for a permit, that of its semaphore
	Value   string
	Process string        // names the holder on the wait lists, which its release then leaves
	TTL     time.Duration // how long the vote is worth something to it, from now on
	Slot    int           // of a permit; 0 for a lock
	Permits int           // of its semaphore
}

// Request returns the request of a writer, or of the holder of a permit.
func (p *Prefer) Request() pipeline.Request { return p.request("=" + p.Process) }

// SharedRequest returns the request of a reader.
func (p *Prefer) SharedRequest() pipeline.Request { return p.request("=+" + p.Process) }

func (p *Prefer) request(holder string) pipeline.Request {
	args := []any{p.Value, holder + ":" + p.Value, p.TTL.Milliseconds()}
	if p.Slot > 0 {
		args = append(args, p.Slot, p.Permits)
	}
	return pipeline.Request{Script: preferScript, Words: pipeline.On(p.Keys, args...), Key: p.Keys[0], Accept: isInteger}
}
