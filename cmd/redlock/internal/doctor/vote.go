package doctor

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/pool"
)

// memoryScript finds out whether a script may do what the memory marker takes. A word that is no
// option makes SET fail before it writes, but behind the checks of rights and of memory.
var memoryScript = pipeline.NewLateScript(`
local time = redis.pcall('TIME')
if time.err then return time end
local set = redis.pcall('SET', KEYS[1], '', 'redquorum')
if set.err and string.find(set.err, 'syntax') then return 1 end
return set`)

// askMemory reads the memory marker, and finds out whether it could be written.
func (p *probe) askMemory(ctx context.Context, f *facts) error {
	reply, err := p.call(ctx, "GET", pipeline.MemoryKey)
	if call, ok := errors.AsType[*pipeline.CallError](err); ok && call.Fate == pipeline.Refused {
		f.unreadable = call.Err
		return nil
	}
	if err != nil {
		return err
	}
	f.marker = text(reply)
	w := make(waiter, 1)
	p.node.Do(&pipeline.Call{Request: &pipeline.Request{
		Script: memoryScript, Args: memoryScript.Args(nil, []any{pipeline.MemoryKey}), Deadline: p.clock.Now().Add(answerBound), Sink: w,
	}})
	_, err = w.wait(ctx)
	if call, ok := errors.AsType[*pipeline.CallError](err); ok && call.Fate == pipeline.Refused {
		f.unwritable = call.Err
		return nil
	}
	return err
}

// findNewCluster finds out whether the masters are all there, and new.
func findNewCluster(all []facts) {
	missing := slices.ContainsFunc(all, func(f facts) bool { return f.err != nil })
	other := slices.ContainsFunc(all, func(f facts) bool {
		return f.err != nil || f.memory() != markerNew || !errors.Is(f.barred, pool.ErrQuarantined)
	})
	for i := range all {
		all[i].missing, all[i].allNew = missing, !other
	}
}

// Words that a memory marker begins with (docs/design.md).
const (
	markerNew    = "new"
	markerLost   = "lost"
	markerActive = "active"
)

// memory returns the state that the marker says; nothing where it is not known.
func (f *facts) memory() string {
	switch word := before(f.marker, " "); word {
	case markerNew, markerLost, markerActive:
		return word
	default:
		return ""
	}
}

// markerRunID returns the process that an active marker was written for; nothing where it does not
// tell.
func (f *facts) markerRunID() string {
	fields := strings.Fields(f.marker)
	if f.memory() != markerActive || len(fields) < 3 || fields[2] == "-" {
		return ""
	}
	return fields[2]
}

// checkVote tells whether the vote counts.
func (f *facts) checkVote(add adder, l limits) {
	lost := "it may have forgotten locks that are still held"
	switch {
	case f.barred == nil:
	case errors.Is(f.barred, pool.ErrDuplicate):
		_, words, _ := strings.Cut(f.barred.Error(), pool.ErrDuplicate.Error()+": ")
		add(severe, "twin", "one server has one vote, however many endpoints lead to it", "give the endpoint of another server, or take this one out",
			"%s", words)
	case f.allNew && !l.strict:
		add(note, "new", "nobody has used these masters yet; where they held locks before they lost their keys, the first client is too early",
			"nothing; where clients use QuarantineStrict, give --strict", "it is new, as all are: the first client makes them vote")
	case f.memory() == markerNew:
		do := "wait; or, where you know that no lock is held, run redlock init"
		if f.missing && !l.strict {
			do = "start the masters that are missing; or " + do
		}
		add(severe, "quarantine", "a master without a memory may be an old one that lost it; only where all are new and there, it votes at once",
			do, "%v", f.barred)
	case f.memory() == markerLost:
		add(severe, "quarantine", lost, "wait, and restart one master at a time; or, where you know that no lock is held, run redlock init --force", "%v", f.barred)
	default:
		add(severe, "quarantine", lost, "wait; restart one master at a time", "%v", f.barred)
	}
}

// checkMarker tells whether the master can prove that it remembers.
func (f *facts) checkMarker(add adder) {
	const (
		inferred = "memory losses are inferred from INFO only: FLUSHALL, REPLICAOF and a restart within the first minute are not seen (docs/safety.md)"
		allow    = "allow GET, SET and TIME, and the key redquorum:memory, to the user (docs/operations.md has the rule)"
	)
	switch other := f.markerRunID(); {
	case f.unreadable != nil:
		add(warning, "marker", inferred, allow, "%s cannot be read: %v", pipeline.MemoryKey, f.unreadable)
	case f.unwritable != nil:
		add(warning, "marker", "it proves something only where others keep it; else "+inferred, allow, "%s cannot be written: %v", pipeline.MemoryKey, f.unwritable)
	case other != "" && f.runID != "" && other != f.runID:
		add(warning, "marker", "its keys came from a disk or another server, and whether they are all there is open", "run doctor again in a moment",
			"%s was written for another process (run_id %s)", pipeline.MemoryKey, other)
	}
}

// checkServer tells what else is known of the server.
func (f *facts) checkServer(add adder) {
	if f.runID == "" {
		add(warning, "unidentified", "whether it restarted with old keys, is a replica or a member of a cluster cannot be seen",
			"allow INFO to the user (docs/operations.md)", "the server does not tell who it is%s", f.because("INFO"))
	}
	if replicas, err := strconv.Atoi(f.info["connected_slaves"]); err == nil && replicas > 0 {
		add(note, "replicated", "a replica that is promoted behind this endpoint knows fewer locks, and clients quarantine it",
			"let nothing fail over behind the endpoint; a master that is gone is gone", "it has %s", cli.Plural(replicas, "replica"))
	}
	if major, err := strconv.Atoi(before(f.version, ".")); err == nil && major < 5 && f.product == "redis" {
		add(warning, "version", "CLIENT ID is not there: what a proxy holds back from a broken connection cannot be killed", "use Redis 5 or later",
			"its version is %s", f.version)
	}
}
