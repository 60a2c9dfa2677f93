package queue

import (
	_ "embed" // the scripts
	"strings"

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
	enqueueScript = late(changeSource, recordSource, enqueueSource)
	settleScript  = late(changeSource, recordSource, settleSource)
	removeScript  = late(changeSource, recordSource, removeSource)
	lettersScript = late(changeSource, recordSource, lettersSource)
	dueScript     = late(changeSource, recordSource, dueSource)
	nextScript    = late(changeSource, nextSource)
	deadScript    = late(changeSource, recordSource, deadSource)
	countScript   = late(changeSource, recordSource, countSource)
)

func late(parts ...string) *pipeline.Script {
	return pipeline.Assembled(func() string { return strings.Join(parts, "") }).Late()
}
