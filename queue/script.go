package queue

import (
	_ "embed" // the scripts

	"github.com/redquorum/redquorum/pool"
)

//go:embed scripts/change.lua
var changeSource string

//go:embed scripts/enqueue.lua
var enqueueSource string

//go:embed scripts/settle.lua
var settleSource string

//go:embed scripts/remove.lua
var removeSource string

//go:embed scripts/due.lua
var dueSource string

//go:embed scripts/next.lua
var nextSource string

// All of them may come late: a change that comes behind one of a later holder is refused by its fence, and one that comes twice is
// done once.
var (
	enqueueScript = pool.NewLateScript(changeSource + enqueueSource)
	settleScript  = pool.NewLateScript(changeSource + settleSource)
	removeScript  = pool.NewLateScript(changeSource + removeSource)
	dueScript     = pool.NewLateScript(changeSource + dueSource)
	nextScript    = pool.NewLateScript(changeSource + nextSource)
)
