// Package wire has what nodes are asked and what their answers mean: the Lua scripts, a function
// for each request, and one for each reply. No other package knows the order of arguments.
package wire

import (
	_ "embed" // the scripts
	"fmt"
	"strings"
	"time"

	"github.com/redquorum/redquorum/internal/pipeline"
)

//go:embed scripts/free.lua
var freeSource string

//go:embed scripts/release.lua
var releaseSource string

//go:embed scripts/extend_one.lua
var extendOneSource string

//go:embed scripts/extend.lua
var extendFile string

//go:embed scripts/acquire.lua
var acquireSource string

//go:embed scripts/adopt.lua
var adoptSource string

//go:embed scripts/restore.lua
var restoreSource string

//go:embed scripts/forget.lua
var forgetSource string

//go:embed scripts/handover.lua
var handOverFile string

//go:embed scripts/publish.lua
var publishSource string

//go:embed scripts/place.lua
var placeSource string

//go:embed scripts/others.lua
var othersSource string

//go:embed scripts/fenced.lua
var fencedSource string

//go:embed scripts/fence.lua
var fenceSource string

//go:embed scripts/join.lua
var joinSource string

//go:embed scripts/enqueue.lua
var enqueueSource string

//go:embed scripts/wait.lua
var waitSource string

//go:embed scripts/raise.lua
var raiseSource string

//go:embed scripts/mend.lua
var mendSource string

//go:embed scripts/force.lua
var forceSource string

//go:embed scripts/log.lua
var logSource string

//go:embed scripts/inspect.lua
var inspectSource string

//go:embed scripts/record.lua
var recordSource string

//go:embed scripts/recorded.lua
var recordedSource string

//go:embed scripts/memory.lua
var memorySource string

//go:embed scripts/members.lua
var membersSource string

//go:embed scripts/verify.lua
var verifySource string

//go:embed scripts/free_batch.lua
var freeBatchSource string

//go:embed scripts/release_one.lua
var releaseOneSource string

//go:embed scripts/retain.lua
var retainSource string

//go:embed scripts/release_batch.lua
var releaseBatchSource string

//go:embed scripts/try.lua
var trySource string

//go:embed scripts/acquire_one.lua
var acquireOneSource string

//go:embed scripts/acquire_batch.lua
var acquireBatchSource string

//go:embed scripts/verify_batch.lua
var verifyBatchSource string

//go:embed scripts/raise_one.lua
var raiseOneSource string

//go:embed scripts/raise_batch.lua
var raiseBatchSource string

// late and inOrder join the files of a script, without their comments, because each connection
// transfers it once.
func late(sources ...string) *pipeline.Script    { return pipeline.NewLateScript(bare(sources)) }
func inOrder(sources ...string) *pipeline.Script { return pipeline.NewScript(bare(sources)) }

func bare(sources []string) string {
	var code strings.Builder
	for line := range strings.Lines(strings.Join(sources, "")) {
		if !strings.HasPrefix(strings.TrimSpace(line), "--") {
			code.WriteString(line)
		}
	}
	return code.String()
}

// listLife is how long a wait list lives after the last request that touched it. It is longer than
// two polls of the slowest waiter.
const listLife = 3 * time.Minute

var handOverSource = fmt.Sprintf("local listLife = %d -- milliseconds\n", listLife.Milliseconds()) +
	publishSource + placeSource + othersSource + sharedSource + handOverFile

// The sources of the scripts that are also run for many locks at once. What files have in common is
// in files of its own: those of a hand-over, fenced.lua, fence.lua, try.lua and those called one.
var (
	releases     = []string{freeSource, handOverSource, releaseOneSource, releaseSource}
	releaseBatch = freeBatchSource + handOverSource + releaseOneSource + trySource + releaseBatchSource

	retains = []string{handOverSource, releaseOneSource, retainSource, releaseSource}

	acquires     = []string{fencedSource, acquireOneSource, fenceSource, acquireSource}
	acquireBatch = fencedSource + fenceSource + trySource + acquireBatchSource

	inspects = []string{sharedSource, ownerSource, inspectSource}

	waits = []string{handOverSource, fenceSource, enqueueSource, waitSource}

	extendSource = extendOneSource + extendFile

	raises     = []string{fenceSource, raiseOneSource, raiseSource}
	raiseBatch = fenceSource + raiseOneSource + trySource + raiseBatchSource
)

// How many calls are run at once, so that they keep a server busy for less than half a millisecond
// or so. Most of the gain comes with the first eight.
const (
	mostWritten  = 32
	mostVerified = 128
)

var (
	// Late: a value is used once, so deleting it late or twice can only do what should have been
	// done.
	releaseScript = late(releases...).Batch(late(releaseBatch), 2, mostWritten).OneForAll()

	// In order: with WithValue the next lock may have the same value, and its key must not be
	// deleted.
	orderedReleaseScript = inOrder(releases...).Batch(inOrder(releaseBatch), 2, mostWritten).OneForAll()

	// Like releases. They are rare, so they are not batched.
	retainScript        = late(retains...).Timed()
	orderedRetainScript = inOrder(retains...).Timed()

	// In order: behind the release of its lock it would bring the key back. It is its own batch.
	extendScript = batchOfItself(inOrder(extendSource), 2, mostWritten).OneForAll()

	// In order, too: behind its release it would leave keys behind. Only with fencing one key takes
	// a script, of four arguments.
	acquireScript = inOrder(acquires...).Batch(inOrder(acquireBatch), 4, mostWritten)
	waitScript    = inOrder(waits...)
	joinScript    = inOrder(fenceSource, joinSource)

	// In order: behind the release of the lock it would have nothing to do anyway.
	raiseScript = inOrder(raises...).Batch(inOrder(raiseBatch), 3, mostWritten)
	mendScript  = inOrder(mendSource)

	// In order: behind its restore it would take the lock away again.
	adoptScript = inOrder(fenceSource, adoptSource)

	// Late: the value of a swap is used once.
	restoreScript = late(handOverSource, restoreSource)
	forgetScript  = late(forgetSource)

	// In order: it takes the key from whoever holds it, and must not take it from a later holder.
	forceScript = inOrder(handOverSource, forceSource)

	// Late: it compares the whole text, and a text never recurs.
	memoryScript  = late(memorySource)
	membersScript = late(membersSource)

	// Late: a term stays what it is, so recording it late or twice changes nothing.
	recordScript = late(recordSource)

	// Late: an entry is the same whenever it comes, and however often.
	logScript = late(logSource)

	// Late: they change nothing.
	inspectScript  = late(inspects...)
	recordedScript = late(recordedSource)
	loggedScript   = late("return redis.call('ZRANGE', KEYS[1], 0, -1)")
	verifyScript   = late(verifySource).Batch(late(verifyBatchSource), 1, mostVerified)
)

func batchOfItself(s *pipeline.Script, args, most int) *pipeline.Script {
	return s.Batch(s, args, most)
}
