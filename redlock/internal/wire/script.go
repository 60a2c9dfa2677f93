// Package wire has what nodes are asked and what their answers mean: the Lua scripts, a function
// for each request, and one for each reply. No other package knows the order of arguments.
package wire

import (
	"embed"
	"slices"
	"strings"

	"github.com/redquorum/redquorum/internal/pipeline"
)

//go:embed scripts/*.lua
var files embed.FS

// code returns what is run for some files of scripts: those that they require, and they. A file
// names in its first line what it requires, in the order in which that must come. Comments are left
// out, because each connection transfers a script once.
func code(names ...string) string {
	text, _ := assemble(names...)
	return text
}

// assemble returns code, and the names of the files that it is made of.
func assemble(names ...string) (_ string, seen []string) {
	var parts []string
	var add func(names []string)
	add = func(names []string) {
		for _, name := range names {
			if slices.Contains(seen, name) {
				continue
			}
			seen = append(seen, name)
			file := read(name)
			add(file.requires)
			parts = append(parts, file.code)
		}
	}
	add(names)
	return strings.Join(parts, ""), seen
}

// source is a file of scripts.
type source struct {
	requires []string
	code     string // without comments
}

func read(name string) (s source) {
	file, err := files.ReadFile("scripts/" + name + ".lua")
	if err != nil {
		panic(err)
	}
	first, _, _ := strings.Cut(string(file), "\n")
	if names, ok := strings.CutPrefix(first, "-- requires "); ok {
		s.requires = strings.Fields(names)
	}
	var code strings.Builder
	code.Grow(len(file))
	for line := range strings.Lines(string(file)) {
		if !strings.HasPrefix(strings.TrimSpace(line), "--") {
			code.WriteString(line)
		}
	}
	s.code = code.String()
	return s
}

func late(names ...string) *pipeline.Script { return inOrder(names...).Late() }

func inOrder(names ...string) *pipeline.Script {
	return pipeline.Assembled(func() string { return code(names...) })
}

// Scripts that begin with another file than those which they require: the common case of a release,
// and what takes the place of a function that the last file calls.
var (
	releases    = []string{"free", "release"}
	retains     = []string{"retain", "release"}
	extendKinds = []string{"extend_kinds", "extend"}
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
	releaseScript = late(releases...).Batch(late("release_batch"), 2, mostWritten).OneForAll()

	// Like releases. They are rare, so they are not batched.
	retainScript = late(retains...).Timed()

	// In order: behind the release of its lock it would bring the key back. It is its own batch.
	extendScript      = batchOfItself(inOrder("extend"), 2, mostWritten).OneForAll()
	extendKindsScript = batchOfItself(inOrder(extendKinds...), 2, mostWritten).OneForAll()

	// In order, too: behind its release it would leave keys behind. Only with fencing one key takes
	// a script, of four arguments.
	acquireScript = inOrder("acquire").Batch(inOrder("acquire_batch"), 4, mostWritten)
	anyScript     = inOrder("any")
	joinScript    = inOrder("join")
	waitScript    = inOrder("wait")

	// In order: behind the release of its lock it would give the vote to nobody.
	preferScript = inOrder("prefer")

	// In order: behind the release of the lock it would have nothing to do anyway.
	raiseScript = inOrder("raise").Batch(inOrder("raise_batch"), 3, mostWritten)
	mendScript  = inOrder("mend")

	// In order: behind its restore it would take the lock away again.
	adoptScript = inOrder("adopt")

	// Late: the value of a swap is used once.
	restoreScript = late("restore")
	forgetScript  = late("forget")

	// Late: it only lengthens, and after the release of its lock it finds nothing to lengthen.
	keepScript = late("keep")

	// In order: it takes the key from whoever holds it, and must not take it from a later holder.
	forceScript = inOrder("force")

	// Late: it compares the whole text, and a text never recurs.
	memoryScript  = late("memory")
	membersScript = late("members")

	// Late: a term stays what it is, so recording it late or twice changes nothing.
	recordScript = late("record")

	// Late: an entry is the same whenever it comes, and however often.
	logScript = late("log")

	// Late: they change nothing.
	inspectScript  = late("inspect")
	recordedScript = late("recorded")
	loggedScript   = late("logged")
	verifyScript   = late("verify").Batch(late("verify_batch"), 1, mostVerified)
)

// Permits and shared locks: as the scripts of the mutex. Only what releases is late, because a
// value is used once, and what changes nothing.
var (
	permitScript        = inOrder("permit")
	permitWaitScript    = inOrder("permit_wait")
	permitReleaseScript = late("permit_release")
	permitInspectScript = late("permit_inspect")

	sharedAcquireScript = inOrder("shared_acquire")
	sharedWaitScript    = inOrder("shared_wait")
	sharedReleaseScript = late("shared_release")
	sharedRaiseScript   = inOrder("shared_raise")
	sharedVerifyScript  = late("shared_verify")
	announceScript      = inOrder("announce")
)

func batchOfItself(s *pipeline.Script, args, most int) *pipeline.Script {
	return s.Batch(s, args, most)
}
