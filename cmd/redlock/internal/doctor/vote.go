package doctor

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/internal/ask"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/internal/prose"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
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
	if refusal := ask.RefusalOf(err); refusal != nil {
		f.unreadable = refusal
		return nil
	}
	if err != nil {
		return err
	}
	f.marker = ask.Text(reply)
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
func (f *facts) checkVote(add adder, l limits) {
	const (
		lost    = "it may have forgotten locks that are still held"
		byForce = "only if everything that takes locks from these masters is stopped, run redlock init --force"
	)
	switch {
	case f.barred == nil:
	case errors.Is(f.barred, redlock.ErrOtherCluster):
		add(severe, "cluster", "votes of two clusters are never counted together",
			"take it out of the list; or give only masters of one cluster", "%s", cli.WithoutPrefix(f.barred))
	case errors.Is(f.barred, redlock.ErrNotMember):
		add(severe, "member", "a quorum is a majority of the members, whatever the list of a client says",
			"take it out of the list; or make it a member: redlock members add", "%s", cli.WithoutPrefix(f.barred))
	case errors.Is(f.barred, pipeline.ErrTorn):
		add(severe, "quarantine", lost, "run that command, or wait until a program takes a lock", "%v", f.barred)
	case f.memory() == markerActive && f.barredFor == 0 && !errors.Is(f.barred, pool.ErrDuplicate):
		add(severe, "cluster", "a master that remembers votes once it is known of which cluster it is a member",
			"list all members of the cluster and no others, and start those that are down; a new cluster needs all of its masters once", "%v", f.barred)
	case errors.Is(f.barred, pool.ErrDuplicate):
		add(severe, "twin", "one server has one vote, however many endpoints lead to it",
			"give the endpoint of another server, or remove this one", "%s", cli.Reason(f.barred, pool.ErrRefused))
	case f.allNew && !l.strict:
		add(note, "new",
			"no client of redquorum has used these masters yet; if they held locks before they lost their keys, "+
				"the first client begins too early",
			"nothing; if clients use QuarantineStrict, give --strict", "it is new, as all are: the first client makes them vote")
	case f.memory() == markerNew:
		do := "wait; or, if you know that no lock is held, run redlock init"
		switch {
		case f.anyVotes:
			do = "wait; or, " + byForce
		case f.missing && !l.strict:
			do = "start the masters that are missing, or leave them out of the list"
		}
		add(severe, "quarantine",
			"a master without a memory may be an old one that lost it; it votes at once only if all masters are there and new",
			do, "%v", f.barred)
	case f.memory() == markerLost:
		add(severe, "quarantine", lost,
			"wait, and restart one master at a time; or, "+byForce,
			"%v%s", f.barred, f.forgetting())
	default:
		add(severe, "quarantine", lost, "wait; restart one master at a time", "%v%s", f.barred, f.forgetting())
	}
}

// checkMarker tells whether the master can prove that it remembers.
func (f *facts) checkMarker(add adder) {
	const (
		inferred = "memory losses are inferred from INFO only: FLUSHALL, REPLICAOF and a restart within the first minute " +
			"go unnoticed (docs/safety.md)"
		allow = "allow GET, SET and TIME, and the key redquorum:memory, to the user (docs/operations.md has the rule)"
	)
	switch other := f.markerRunID(); {
	case f.unreadable != nil:
		add(warning, "marker", inferred, allow, "%s cannot be read: %v", pipeline.MemoryKey, f.unreadable)
	case f.unwritable != nil:
		add(warning, "marker", "it proves something only if other clients maintain it; otherwise "+inferred, allow,
			"%s cannot be written: %v", pipeline.MemoryKey, f.unwritable)
	case f.byList != nil:
		add(warning, "members", "clients with this user count votes by their own lists: two with different lists may exclude nobody",
			"allow the key redquorum:members to the user (docs/operations.md has the rule)", "%s cannot be used: %v", pipeline.RegisterKey, f.byList)
	case other != "" && f.runID != "" && other != f.runID:
		add(warning, "marker", "its keys came from a disk or another server, and may be incomplete",
			"run doctor again in a moment", "%s was written for another process (run_id %s)", pipeline.MemoryKey, other)
	}
}

// checkServer tells what else is known about the server.
func (f *facts) checkServer(add adder) {
	if f.runID == "" {
		add(warning, "unidentified", "restarts with old keys, replicas and cluster members go unnoticed",
			"allow INFO to the user (docs/operations.md)", "the server does not identify itself%s", f.because("INFO"))
	}
	if replicas, err := strconv.Atoi(f.info["connected_slaves"]); err == nil && replicas > 0 {
		add(note, "replicated", "a replica promoted behind this endpoint knows fewer locks, and clients quarantine it",
			"let nothing fail over behind the endpoint: a lost master must stay lost",
			"it has %s", prose.Plural(replicas, "replica"))
	}
	if major, err := strconv.Atoi(before(f.version, ".")); err == nil && major < 5 && f.product == "redis" {
		add(warning, "version", "it has no CLIENT ID: what a proxy holds back from a broken connection cannot be killed",
			"use Redis 5 or later", "its version is %s", f.version)
	}
}
