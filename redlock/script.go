package redlock

import (
	_ "embed" // the scripts

	"github.com/redquorum/redquorum/pool"
)

//go:embed scripts/release.lua
var releaseSource string

//go:embed scripts/extend.lua
var extendSource string

//go:embed scripts/acquire.lua
var acquireSource string

//go:embed scripts/adopt.lua
var adoptSource string

//go:embed scripts/restore.lua
var restoreSource string

//go:embed scripts/handover.lua
var handOverSource string

//go:embed scripts/fence.lua
var fenceSource string

//go:embed scripts/wait.lua
var waitSource string

//go:embed scripts/raise.lua
var raiseSource string

//go:embed scripts/force.lua
var forceSource string

//go:embed scripts/inspect.lua
var inspectSource string

//go:embed scripts/verify.lua
var verifySource string

// Two of the files are functions that others begin with: handover.lua and fence.lua.
var (
	// Late: a value is used once, so deleting it late or twice can only do what should have been done.
	releaseScript = pool.NewLateScript(handOverSource + releaseSource)

	// In order: with WithValue the next attempt has the same value, and its key must not be hit.
	orderedReleaseScript = pool.NewScript(handOverSource + releaseSource)

	// In order: behind the release of its lock it would bring the key back.
	extendScript = pool.NewScript(extendSource)

	// In order, too: behind its release it would leave keys.
	acquireScript = pool.NewScript(fenceSource + acquireSource)
	waitScript    = pool.NewScript(handOverSource + fenceSource + waitSource)

	// In order: behind the release of the lock it would have nothing to do anyway.
	raiseScript = pool.NewScript(raiseSource)

	// In order: behind its restoring it would take the lock away again.
	adoptScript = pool.NewScript(fenceSource + adoptSource)

	// Late: the value of a swap is used once.
	restoreScript = pool.NewLateScript(handOverSource + restoreSource)

	// In order: it takes the key from whoever has it, and should not hit a later one.
	forceScript = pool.NewScript(handOverSource + forceSource)

	// Late: they change nothing.
	inspectScript = pool.NewLateScript(inspectSource)
	verifyScript  = pool.NewLateScript(verifySource)
)
