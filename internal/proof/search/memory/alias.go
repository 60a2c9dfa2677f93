package memory

import "github.com/redquorum/redquorum/internal/proof/spec"

// What internal/proof/history/design takes from internal/proof/spec by way of this package.

type (
	// A State is that of spec.
	State = spec.State
	// Facts are those of spec.
	Facts = spec.Facts
)

// The states and verdicts of spec.
const (
	New       = spec.New
	Lost      = spec.Lost
	Active    = spec.Active
	Wait      = spec.Wait
	Vote      = spec.Vote
	WriteNew  = spec.WriteNew
	WriteLost = spec.WriteLost
	ToLost    = spec.ToLost
	Activate  = spec.Activate
	TakeRun   = spec.TakeRun
)

// Judge is that of spec.
func Judge(f Facts) spec.Verdict { return spec.Judge(f) }
