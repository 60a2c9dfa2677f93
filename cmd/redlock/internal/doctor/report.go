package doctor

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/admin/survey"
	"github.com/redquorum/redquorum/internal/prose"
	"github.com/redquorum/redquorum/internal/trouble"
)

// diagnosis is what doctor --json prints. Its field names are documented (redlock help doctor).
type diagnosis struct {
	Safe     bool            `json:"safe"`   // a majority of the members has no error
	Quorum   int             `json:"quorum"` // how many members are a majority
	Sound    int             `json:"sound"`  // masters without an error
	Cluster  string          `json:"cluster"`
	Version  int64           `json:"version"` // of the list of members
	Members  int             `json:"members"` // of which a quorum is a majority
	Findings []finding       `json:"findings"`
	Nodes    []nodeDiagnosis `json:"nodes"`
	Errors   int             `json:"errors"`   // findings of this severity, of all masters
	Warnings int             `json:"warnings"` // likewise
}

// nodeDiagnosis describes one master. What is unknown is empty or zero.
type nodeDiagnosis struct {
	Endpoint        string    `json:"endpoint"`
	Reachable       bool      `json:"reachable"`
	Product         string    `json:"product"`
	Version         string    `json:"version"`
	Role            string    `json:"role"`
	RunID           string    `json:"run_id"`
	UptimeSeconds   int64     `json:"uptime_seconds"`
	RoundTripMicros int64     `json:"round_trip_us"`
	OffsetMillis    int64     `json:"clock_offset_ms"`
	Votes           bool      `json:"votes"`
	Memory          string    `json:"memory"`         // state of its marker: active, new or lost
	BarredMillis    int64     `json:"quarantined_ms"` // until it votes, as far as known
	Findings        []finding `json:"findings"`
	Rights          string    `json:"rights"` // one line that allows what was refused; empty if nothing was
}

func diagnose(all []facts, l limits, c *cluster) diagnosis {
	d := diagnosis{
		Cluster: c.Cluster, Version: c.Version, Members: c.members,
		Quorum: c.members/2 + 1, Findings: slices.Concat(checkNumber(c.members), c.check(l), checkHosts(all), checkOurClock(all)),
	}
	if d.Findings == nil {
		d.Findings = []finding{} // [] in JSON, not null
	}
	findNewCluster(all)
	for i := range all {
		f := &all[i]
		f.maxTTL = l.maxTTL
		n := nodeDiagnosis{
			Endpoint: f.endpoint, Reachable: f.err == nil, Product: f.product, Version: f.version, Role: f.info["role"], RunID: f.runID,
			RoundTripMicros: f.roundTrip.Microseconds(), OffsetMillis: f.offset.Milliseconds(),
			Votes: f.err == nil && f.barred == nil, Memory: f.memory(), BarredMillis: f.barredFor.Milliseconds(), Findings: f.check(l),
			Rights: f.rights(),
		}
		n.UptimeSeconds, _ = strconv.ParseInt(f.info["uptime_in_seconds"], 10, 64) //nolint:errcheck // zero: unknown
		if n.Findings == nil {
			n.Findings = []finding{} // [] in JSON, not null
		}
		if !slices.ContainsFunc(n.Findings, func(f finding) bool { return f.Severity == trouble.Error }) {
			d.Sound++
		}
		d.Nodes = append(d.Nodes, n)
	}
	d.Safe = d.Sound >= d.Quorum
	for _, f := range d.all() {
		switch f.Severity {
		case trouble.Error:
			d.Errors++
		case trouble.Warning:
			d.Warnings++
		case trouble.Note:
		}
	}
	return d
}

// all returns every finding.
func (d *diagnosis) all() []finding {
	found := slices.Clone(d.Findings)
	for i := range d.Nodes {
		found = append(found, d.Nodes[i].Findings...)
	}
	return found
}

// level is how bad a diagnosis must be to fail.
type level string

const (
	failOnQuorum  level = "quorum"  // no majority of the masters is without an error
	failOnError   level = "error"   // or a master has an error
	failOnWarning level = "warning" // or there is a warning
)

// String returns the level.
func (l *level) String() string { return string(*l) }

// Set takes the value of a flag.
func (l *level) Set(text string) error {
	switch level(text) {
	case failOnQuorum, failOnError, failOnWarning:
		*l = level(text)
		return nil
	default:
		return fmt.Errorf("not %s, %s or %s", failOnQuorum, failOnError, failOnWarning)
	}
}

// Type names the values in the help text.
func (l *level) Type() string { return "level" }

// fails reports whether the exit status is a failure.
func (d *diagnosis) fails(on level) bool {
	return !d.Safe || on != failOnQuorum && d.Errors > 0 || on == failOnWarning && d.Warnings > 0
}

// checkNumber tells what the number of masters is good for.
func checkNumber(n int) []finding {
	r := &findings{}
	switch {
	case n == 1:
		r.add(trouble.OneMaster, nil, "there is one master")
	case n%2 == 0:
		r.add(trouble.Even, fill{"losses": prose.Plural((n-1)/2, "master")}, "there are %d masters, an even number", n)
	}
	return r.all
}

// cluster is by what votes count.
type cluster struct {
	admin.Membership // zero if it is not known
	members          int
	flaws            []survey.Flaw
}

// check compares the list with the members. What is no member has a finding of its own.
func (c *cluster) check(l limits) []finding {
	r := &findings{fill: fill{"ttl": l.ttl.String()}}
	for _, flaw := range c.flaws {
		switch flaw.Check {
		case survey.Missing:
			r.add(trouble.Unlisted, nil, "%s %s", flaw.Endpoint, flaw.What)
		case survey.Unknown:
			r.add(trouble.NoSuch, nil, "%s %s", flaw.Endpoint, flaw.What)
		}
	}
	if c.Cluster != "" && l.ttl > c.MaxTTL {
		r.add(trouble.LongTTL, nil, "the MaxTTL of the cluster is %v, and --ttl is %v", c.MaxTTL, l.ttl)
	}
	return r.all
}
