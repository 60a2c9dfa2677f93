package queue

import (
	_ "embed" // the scripts

	"github.com/redquorum/redquorum/internal/pipeline"
)

//go:embed scripts/change.lua
var changeSource string

//go:embed scripts/record.lua
var recordSource string

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

//go:embed scripts/letters.lua
var lettersSource string

//go:embed scripts/dead.lua
var deadSource string

//go:embed scripts/count.lua
var countSource string

// All of them may run late: a change behind one of a later holder is refused by its fence, and a
// change that arrives twice is made once.
var (
	enqueueScript = pipeline.NewLateScript(changeSource + recordSource + enqueueSource)
	settleScript  = pipeline.NewLateScript(changeSource + recordSource + settleSource)
	removeScript  = pipeline.NewLateScript(changeSource + recordSource + removeSource)
	lettersScript = pipeline.NewLateScript(changeSource + recordSource + lettersSource)
	dueScript     = pipeline.NewLateScript(changeSource + recordSource + dueSource)
	nextScript    = pipeline.NewLateScript(changeSource + nextSource)
	deadScript    = pipeline.NewLateScript(changeSource + recordSource + deadSource)
	countScript   = pipeline.NewLateScript(changeSource + recordSource + countSource)
)
