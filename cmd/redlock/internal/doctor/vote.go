package doctor

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/redquorum/redquorum/internal/ask"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/internal/prose"
	"github.com/redquorum/redquorum/internal/trouble"
	"github.com/redquorum/redquorum/pool"
)

// memoryScript finds out whether a script may do what the memory marker needs. An unknown option
// makes SET fail before it writes, but after the checks of rights and of memory.
var memoryScript = pipeline.NewLateScript(`
local time = redis.pcall('TIME')
if time.err then return time end
local set = redis.pcall('SET', KEYS[1], '', 'redquorum')
if set.err and string.find(set.err, 'syntax') then return 1 end
return set`)

// askMemory reads the memory marker, and finds out whether it could be written.
func (p *probe) askMemory(ctx context.Context, f *facts) error {
	reply, err := p.call(ctx, "GET", pipeline.MemoryKey)
	if f.unreadable = ask.RefusalOf(err); f.unreadable == nil {
		if err != nil {
			return err
		}
		f.marker = ask.Text(reply)
	}
	if f.unwritable, err = p.run(ctx, memoryScript, pipeline.MemoryKey); err == nil {
		f.byList, err = p.run(ctx, memoryScript, pipeline.RegisterKey)
	}
	return err
}

// findNewCluster finds out whether a master is missing, whether all are new, and whether one votes.
func findNewCluster(all []facts) {
	missing := slices.ContainsFunc(all, func(f facts) bool { return f.err != nil })
	other := slices.ContainsFunc(all, func(f facts) bool {
		return f.err != nil || f.memory() != markerNew || !errors.Is(f.barred, pool.ErrQuarantined)
	})
	votes := slices.ContainsFunc(all, func(f facts) bool { return f.err == nil && f.barred == nil })
	for i := range all {
		all[i].missing, all[i].allNew, all[i].anyVotes = missing, !other, votes
	}
}

// The first word of a memory marker (docs/operations.md, Restarts).
const (
	markerNew    = "new"
	markerLost   = "lost"
	markerActive = "active"
)

// memory returns the state in the marker, which is new as well if no client has written one; empty
// if unknown.
func (f *facts) memory() string {
	if f.marker == "" && f.unreadable == nil && f.err == nil {
		return markerNew
	}
	switch word := before(f.marker, " "); word {
	case markerNew, markerLost, markerActive:
		return word
	default:
		return ""
	}
}

// markerRunID returns the run id that an active marker was written for; empty if it has none.
func (f *facts) markerRunID() string {
	fields := strings.Fields(f.marker)
	if f.memory() != markerActive || len(fields) < 3 || fields[2] == "-" {
		return ""
	}
	return fields[2]
}

// checkVote tells whether the vote counts.
func (f *facts) checkVote(r *findings, l limits) {
	kind := trouble.Of(f.barred)
	switch {
	case f.barred == nil, f.states[kind] != nil: // checkStates says it
	case kind == trouble.Quarantined && f.memory() == markerActive && f.barredFor == 0:
		r.add(trouble.NoMajority, nil, "%v", f.barred)
	case kind.Row().Check == trouble.Right.Row().Check: // checkCommands says what to allow
		r.add(trouble.Quarantined, nil, "%v", f.barred)
	case kind != trouble.Quarantined:
		r.addError(kind, f.barred, nil)
	case f.allNew && !l.strict:
		r.add(trouble.New, nil, "it is new, as all are: the first client makes them vote")
	case f.memory() == markerNew && f.anyVotes:
		r.add(trouble.Lost, nil, "%v", f.barred)
	case f.memory() == markerNew && f.missing && !l.strict:
		r.add(trouble.NewIncludes, nil, "%v", f.barred)
	case f.memory() == markerNew:
		r.add(trouble.NewWaits, nil, "%v", f.barred)
	case f.memory() == markerLost:
		r.add(trouble.Lost, nil, "%v%s", f.barred, f.forgetting())
	default:
		r.add(trouble.Quarantined, nil, "%v%s", f.barred, f.forgetting())
	}
}

// checkMarker tells whether the master can prove that it remembers.
func (f *facts) checkMarker(r *findings) {
	rule := f.setUser() + "~redquorum:memory ~redquorum:members +get +set +time"
	switch other := f.markerRunID(); {
	case f.unreadable != nil:
		r.addRefusal(trouble.Marker, f.unreadable, "", rule, "reading %s", pipeline.MemoryKey)
	case f.unwritable != nil:
		r.addRefusal(trouble.Marker, f.unwritable, "", rule, "writing %s", pipeline.MemoryKey)
	case f.byList != nil:
		r.addRefusal(trouble.Register, f.byList, "", rule, "using %s", pipeline.RegisterKey)
	case other != "" && f.runID != "" && other != f.runID && trouble.Of(f.barred) != trouble.Unasked:
		r.add(trouble.OtherMarker, nil, "%s was written for another process (run_id %s)", pipeline.MemoryKey, other)
	}
}

// checkServer tells what else is known about the server.
func (f *facts) checkServer(r *findings) {
	if f.runID == "" {
		found := r.add(trouble.Unidentified, nil, "the server does not identify itself%s", f.because("INFO"))
		if refusal := f.denied["INFO"]; !isRight(refusal) { // no rule allows it
			found.Do, found.Commands = trouble.Unknown.Row().Do, []string{}
		}
	}
	if replicas, err := strconv.Atoi(f.info["connected_slaves"]); err == nil && replicas > 0 {
		r.add(trouble.HasReplicas, nil, "it has %s", prose.Plural(replicas, "replica"))
	}
	if major := f.major(); major > 0 && major < 5 && f.product == "redis" {
		r.add(trouble.OldVersion, nil, "its version is %s", f.version)
	}
}

// major returns the first number of its version; 0 if that is not known.
func (f *facts) major() int {
	n, _ := strconv.Atoi(before(f.version, ".")) //nolint:errcheck // 0 if there is no number
	return n
}
