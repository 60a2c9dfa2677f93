// Package prometheus exports the figures of a redlock.Locker to Prometheus:
//
//	import redprometheus "github.com/redquorum/redquorum/contrib/prometheus"
//
//	prometheus.MustRegister(redprometheus.NewCollector(locker))
//
// The figures are those of [redlock.Locker.Stats], read when Prometheus asks. Nothing runs in
// between, and no master is asked.
package prometheus

import (
	"cmp"
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// NewCollector returns a Collector of the counters of a Locker and the state of its nodes. The
// label "node" is the endpoint without user and password. For several Lockers in one registry, tell
// them apart by prometheus.WrapRegistererWith. A Locker that was closed keeps its last figures.
func NewCollector(locker *redlock.Locker) prometheus.Collector { return collector{locker} }

type collector struct{ locker *redlock.Locker }

// lockerMetrics are the figures of the Locker.
var lockerMetrics = []metric[redlock.Stats]{
	gauge("locks_held", "Locks held now.", func(s redlock.Stats) float64 { return float64(s.Held) }),
	gauge("oldest_hold_seconds", "Age of the oldest hold, but for elections.", func(s redlock.Stats) float64 { return s.OldestHold.Seconds() }),
	gauge("callers_waiting", "Calls that wait for a lock now.", func(s redlock.Stats) float64 { return float64(s.Waiting) }),
	gauge("oldest_wait_seconds", "Age of the oldest wait, but for elections.", func(s redlock.Stats) float64 { return s.OldestWait.Seconds() }),
	gauge("quorum_nodes", "Nodes that make a quorum.", func(s redlock.Stats) float64 { return float64(s.Quorum) }),
	gauge("cluster_members", "Masters of which a majority is a quorum.", func(s redlock.Stats) float64 { return float64(s.Members) }),
	gauge("cluster_version", "Version of the list of members; 0 while none is known.", func(s redlock.Stats) float64 { return float64(s.Version) }),
	counter("locks_acquired_total", "Locks acquired.", func(s redlock.Stats) uint64 { return s.Acquired }),
	counter("locks_renewed_total", "Renewals and extensions that won.", func(s redlock.Stats) uint64 { return s.Renewed }),
	counter("locks_lost_total", "Locks that ended without being released.", func(s redlock.Stats) uint64 { return s.Lost }),
	counter("rounds_taken_total", "Rounds that a quorum did not grant.", func(s redlock.Stats) uint64 { return s.Taken }),
	counter("rounds_no_quorum_total", "Rounds that too few nodes answered.", func(s redlock.Stats) uint64 { return s.NoQuorum }),
	counter("rounds_no_validity_total", "Rounds that won too late.", func(s redlock.Stats) uint64 { return s.NoValidity }),
	counter("rounds_split_total", "Rounds that some nodes granted, but no quorum.", func(s redlock.Stats) uint64 { return s.Split }),
	counter("second_rounds_total", "Rounds that raised masters to a fencing token.", func(s redlock.Stats) uint64 { return s.SecondRounds }),
	counter("waits_total", "Calls that did not get the lock at once.", func(s redlock.Stats) uint64 { return s.Waits }),
	counter("votes_handed_over_total", "Votes that releases gave to waiters.", func(s redlock.Stats) uint64 { return s.HandedOver }),
	counter("waiters_woken_total", "Votes handed over that woke a waiter.", func(s redlock.Stats) uint64 { return s.Woken }),
	counter("waiter_polls_total", "Attempts of waiters that nothing woke.", func(s redlock.Stats) uint64 { return s.Polls }),
	counter("history_dropped_total", "Notes of what became of names that were dropped.", func(s redlock.Stats) uint64 { return s.HistoryDropped }),
	counter("hooks_dropped_total", "Calls of hooks dropped because too many were outstanding.", func(s redlock.Stats) uint64 { return s.HooksDropped }),
}

// nodeMetrics are the figures of one node.
var nodeMetrics = []metric[redlock.NodeStats]{
	gauge("node_up", "Whether the node takes calls.", func(s redlock.NodeStats) float64 { return truth(s.State == pool.Up) }, "node"),
	gauge("node_votes", "Whether the node is up and its vote counts.", func(s redlock.NodeStats) float64 { return truth(s.State == pool.Up && s.Barred == nil) }, "node"),
	gauge("node_quarantine_remaining_seconds", "How long the node will not vote, as far as is known.", func(s redlock.NodeStats) float64 { return s.QuarantinedFor.Seconds() }, "node"),
	gauge("node_calls_waiting", "Unanswered calls.", func(s redlock.NodeStats) float64 { return float64(s.Waiting) }, "node"),
	gauge("node_releases_kept", "Releases to deliver when the node is back.", func(s redlock.NodeStats) float64 { return float64(s.Kept) }, "node"),
	counter("node_calls_total", "Calls made.", func(s redlock.NodeStats) uint64 { return s.Calls }, "node"),
	counter("node_timeouts_total", "Calls that ended at their deadline.", func(s redlock.NodeStats) uint64 { return s.Timeouts }, "node"),
	counter("node_connects_total", "Connections established.", func(s redlock.NodeStats) uint64 { return s.Connects }, "node"),
	counter("node_releases_dropped_total", "Releases given up.", func(s redlock.NodeStats) uint64 { return s.Dropped }, "node"),
}

// nodeInfo tells which server answers at a node.
var nodeInfo = prometheus.NewDesc(namespace+"node_info", "The server that answers, or answered last.", []string{"node", "product", "version"}, nil)

// nodeTrouble tells why a node does not vote.
var nodeTrouble = prometheus.NewDesc(namespace+"node_trouble", "Why the node does not vote: a word of docs/troubles.md.", []string{"node", "trouble"}, nil)

// namespace begins every name.
const namespace = "redquorum_"

// metric is one figure of S.
type metric[S any] struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(S) float64
}

func gauge[S any](name, help string, value func(S) float64, labels ...string) metric[S] {
	return metric[S]{prometheus.NewDesc(namespace+name, help, labels, nil), prometheus.GaugeValue, value}
}

func counter[S any](name, help string, value func(S) uint64, labels ...string) metric[S] {
	return metric[S]{
		prometheus.NewDesc(namespace+name, help, labels, nil), prometheus.CounterValue,
		func(s S) float64 { return float64(value(s)) },
	}
}

func (m metric[S]) collect(metrics chan<- prometheus.Metric, stats S, labels ...string) {
	metrics <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(stats), labels...)
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Describe sends what Collect can send.
func (c collector) Describe(descs chan<- *prometheus.Desc) {
	for _, m := range lockerMetrics {
		descs <- m.desc
	}
	for _, m := range nodeMetrics {
		descs <- m.desc
	}
	descs <- nodeInfo
	descs <- nodeTrouble
}

var errNoLocker = errors.New("prometheus: the collector has no locker")

// Collect sends the current figures.
func (c collector) Collect(metrics chan<- prometheus.Metric) {
	if c.locker == nil {
		metrics <- prometheus.NewInvalidMetric(nodeInfo, errNoLocker)
		return
	}
	stats := c.locker.Stats()
	for _, m := range lockerMetrics {
		m.collect(metrics, stats)
	}
	for _, node := range stats.Nodes {
		if !node.Listed && errors.Is(node.Barred, redlock.ErrNotMember) {
			continue // it was a member; nobody wants its vote any more
		}
		for _, m := range nodeMetrics {
			m.collect(metrics, node, node.Endpoint)
		}
		metrics <- prometheus.MustNewConstMetric(nodeInfo, prometheus.GaugeValue, 1, node.Endpoint, node.Product, node.Version)
		if err := cmp.Or(node.Barred, node.Err); err != nil {
			word, _ := pool.Trouble(err)
			metrics <- prometheus.MustNewConstMetric(nodeTrouble, prometheus.GaugeValue, 1, node.Endpoint, cmp.Or(word, "unreachable"))
		}
	}
}
