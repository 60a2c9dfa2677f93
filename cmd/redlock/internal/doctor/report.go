package doctor

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
)

// diagnosis is what doctor --json prints. Its field names are documented (docs/command.md).
type diagnosis struct {
	Safe     bool            `json:"safe"`   // a majority of the masters has no error
	Quorum   int             `json:"quorum"` // how many masters are a majority
	Sound    int             `json:"sound"`  // masters without an error
	Findings []finding       `json:"findings"`
	Nodes    []nodeDiagnosis `json:"nodes"`
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
}

func diagnose(all []facts, l limits) diagnosis {
	d := diagnosis{Quorum: len(all)/2 + 1, Findings: checkNumber(len(all))}
	findNewCluster(all)
	for i := range all {
		f := &all[i]
		n := nodeDiagnosis{
			Endpoint: f.endpoint, Reachable: f.err == nil, Product: f.product, Version: f.version, Role: f.info["role"], RunID: f.runID,
			RoundTripMicros: f.roundTrip.Microseconds(), OffsetMillis: f.offset.Milliseconds(),
			Votes: f.err == nil && f.barred == nil, Memory: f.memory(), BarredMillis: f.barredFor.Milliseconds(), Findings: f.check(l),
		}
		n.UptimeSeconds, _ = strconv.ParseInt(f.info["uptime_in_seconds"], 10, 64) //nolint:errcheck // zero: unknown
		if n.Findings == nil {
			n.Findings = []finding{} // [] in JSON, not null
		}
		if !slices.ContainsFunc(n.Findings, func(f finding) bool { return f.Severity == severe }) {
			d.Sound++
		}
		d.Nodes = append(d.Nodes, n)
	}
	d.Safe = d.Sound >= d.Quorum
	return d
}

// checkNumber tells what the number of masters is good for.
func checkNumber(n int) []finding {
	switch {
	case n == 1:
		return []finding{{
			warning, "number", "there is one master", "if it fails, all locks are gone; if it restarts, it forgets them",
			"use three or five masters that do not fail together",
		}}
	case n%2 == 0:
		return []finding{{
			note, "number", fmt.Sprintf("there are %d masters, an even number", n),
			fmt.Sprintf("it tolerates the loss of %s, as with one master less", cli.Plural((n-1)/2, "master")), "use an odd number",
		}}
	default:
		return []finding{}
	}
}

func writeDiagnosis(w io.Writer, d diagnosis) error {
	var b strings.Builder
	for i := range d.Nodes {
		n := &d.Nodes[i]
		fmt.Fprintf(&b, "%s  %s\n", n.Endpoint, n.summary())
		writeFindings(&b, n.Findings)
	}
	writeFindings(&b, d.Findings)
	verdict := "A quorum is safe"
	if !d.Safe {
		verdict = "NO QUORUM IS SAFE"
	}
	fmt.Fprintf(&b, "\n%s: %d of %s without an error, %d are needed.\n", verdict, d.Sound, cli.Plural(len(d.Nodes), "master"), d.Quorum)
	_, err := io.WriteString(w, b.String())
	return err
}

// summary describes a master in one line.
func (n *nodeDiagnosis) summary() string {
	if !n.Reachable {
		return "-"
	}
	parts := []string{n.server(), orUnknown(n.Role)}
	if n.UptimeSeconds > 0 {
		parts = append(parts, fmt.Sprintf("up %v", time.Duration(n.UptimeSeconds)*time.Second))
	}
	parts = append(parts, fmt.Sprintf("round trip %v", time.Duration(n.RoundTripMicros)*time.Microsecond),
		fmt.Sprintf("clock %+dms", n.OffsetMillis))
	if len(n.Findings) == 0 {
		parts = append(parts, "ok")
	}
	return strings.Join(parts, ", ")
}

// server names the product and its version: Valkey 9.1.2.
func (n *nodeDiagnosis) server() string {
	if n.Product == "" {
		return "(unknown)"
	}
	return strings.ToUpper(n.Product[:1]) + n.Product[1:] + " " + orUnknown(n.Version)
}

func writeFindings(b *strings.Builder, findings []finding) {
	for _, f := range findings {
		fmt.Fprintf(b, "  %s: %s\n    why: %s\n    do:  %s\n", f.Severity, f.What, f.Why, f.Do)
	}
}

func orUnknown(text string) string {
	if text == "" {
		return "(unknown)"
	}
	return text
}
