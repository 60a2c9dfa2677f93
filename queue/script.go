package queue

import (
	_ "embed" // the scripts

	"github.com/redquorum/redquorum/internal/pipeline"
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

// All of them may run late: a change behind one of a later holder is refused by its fence, and a
// change that arrives twice is made once.
var (
	enqueueScript = pipeline.NewLateScript(changeSource + enqueueSource)
	settleScript  = pipeline.NewLateScript(changeSource + settleSource)
	removeScript  = pipeline.NewLateScript(changeSource + removeSource)
	dueScript     = pipeline.NewLateScript(changeSource + dueSource)
	nextScript    = pipeline.NewLateScript(changeSource + nextSource)
)
