package otel

import (
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// The names are those of contrib/prometheus, as OpenTelemetry's exporter for Prometheus writes
// them.

var lockerFigures = []figure[redlock.Stats]{
	{form{sum, "redquorum.locks.held", "{lock}", "Locks held now."}, func(s *redlock.Stats) float64 { return float64(s.Held) }},
	{form{gauge, "redquorum.oldest.hold", "s", "Age of the oldest hold, but for elections."}, func(s *redlock.Stats) float64 { return s.OldestHold.Seconds() }},
	{form{sum, "redquorum.callers.waiting", "{call}", "Calls that wait for a lock now."}, func(s *redlock.Stats) float64 { return float64(s.Waiting) }},
	{form{gauge, "redquorum.oldest.wait", "s", "Age of the oldest wait, but for elections."}, func(s *redlock.Stats) float64 { return s.OldestWait.Seconds() }},
	{form{gauge, "redquorum.quorum.nodes", "{node}", "Nodes that make a quorum."}, func(s *redlock.Stats) float64 { return float64(s.Quorum) }},
	{form{gauge, "redquorum.cluster.members", "{node}", "Masters of which a majority is a quorum."}, func(s *redlock.Stats) float64 { return float64(s.Members) }},
	{form{gauge, "redquorum.cluster.version", "", "Version of the list of members; 0 while none is known."}, func(s *redlock.Stats) float64 { return float64(s.Version) }},
	{form{counter, "redquorum.locks.acquired", "{lock}", "Locks acquired."}, func(s *redlock.Stats) float64 { return float64(s.Acquired) }},
	{form{counter, "redquorum.locks.renewed", "{lock}", "Renewals and extensions that won."}, func(s *redlock.Stats) float64 { return float64(s.Renewed) }},
	{form{counter, "redquorum.locks.lost", "{lock}", "Locks that ended without being released."}, func(s *redlock.Stats) float64 { return float64(s.Lost) }},
	{form{counter, "redquorum.rounds.taken", "{round}", "Rounds that a quorum did not grant."}, func(s *redlock.Stats) float64 { return float64(s.Taken) }},
	{form{counter, "redquorum.rounds.no_quorum", "{round}", "Rounds that too few nodes answered."}, func(s *redlock.Stats) float64 { return float64(s.NoQuorum) }},
	{form{counter, "redquorum.rounds.no_validity", "{round}", "Rounds that won too late."}, func(s *redlock.Stats) float64 { return float64(s.NoValidity) }},
	{form{counter, "redquorum.rounds.split", "{round}", "Rounds that some nodes granted, but no quorum."}, func(s *redlock.Stats) float64 { return float64(s.Split) }},
	{form{counter, "redquorum.second_rounds", "{round}", "Rounds that raised masters to a fencing token."}, func(s *redlock.Stats) float64 { return float64(s.SecondRounds) }},
	{form{counter, "redquorum.waits", "{call}", "Calls that did not get the lock at once."}, func(s *redlock.Stats) float64 { return float64(s.Waits) }},
	{form{counter, "redquorum.votes.handed_over", "{vote}", "Votes that releases gave to waiters."}, func(s *redlock.Stats) float64 { return float64(s.HandedOver) }},
	{form{counter, "redquorum.waiters.woken", "{vote}", "Votes handed over that woke a waiter."}, func(s *redlock.Stats) float64 { return float64(s.Woken) }},
	{form{counter, "redquorum.waiter.polls", "{attempt}", "Attempts of waiters that nothing woke."}, func(s *redlock.Stats) float64 { return float64(s.Polls) }},
	{form{counter, "redquorum.history.dropped", "{note}", "Notes of what became of names that were dropped."}, func(s *redlock.Stats) float64 { return float64(s.HistoryDropped) }},
	{form{counter, "redquorum.hooks.dropped", "{call}", "Calls of hooks dropped because too many were outstanding."}, func(s *redlock.Stats) float64 { return float64(s.HooksDropped) }},
}

var nodeFigures = []figure[redlock.NodeStats]{
	{form{gauge, "redquorum.node.up", "", "Whether the node takes calls."}, func(s *redlock.NodeStats) float64 { return truth(s.State == pool.Up) }},
	{form{gauge, "redquorum.node.votes", "", "Whether the node is up and its vote counts."}, func(s *redlock.NodeStats) float64 { return truth(s.State == pool.Up && s.Barred == nil) }},
	{form{gauge, "redquorum.node.quarantine.remaining", "s", "How long the node will not vote, as far as is known."}, func(s *redlock.NodeStats) float64 { return s.QuarantinedFor.Seconds() }},
	{form{sum, "redquorum.node.calls.waiting", "{call}", "Unanswered calls."}, func(s *redlock.NodeStats) float64 { return float64(s.Waiting) }},
	{form{sum, "redquorum.node.releases.kept", "{release}", "Releases to deliver when the node is back."}, func(s *redlock.NodeStats) float64 { return float64(s.Kept) }},
	{form{counter, "redquorum.node.calls", "{call}", "Calls made."}, func(s *redlock.NodeStats) float64 { return float64(s.Calls) }},
	{form{counter, "redquorum.node.timeouts", "{call}", "Calls that ended at their deadline."}, func(s *redlock.NodeStats) float64 { return float64(s.Timeouts) }},
	{form{counter, "redquorum.node.connects", "{connection}", "Connections established."}, func(s *redlock.NodeStats) float64 { return float64(s.Connects) }},
	{form{counter, "redquorum.node.releases.dropped", "{release}", "Releases given up."}, func(s *redlock.NodeStats) float64 { return float64(s.Dropped) }},
}

var nodeInfo = form{gauge, "redquorum.node.info", "", "The server that answers, or answered last."}

var nodeTrouble = form{gauge, "redquorum.node.trouble", "", "Why the node does not vote: a word of docs/troubles.md."}
