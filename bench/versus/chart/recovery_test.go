package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/redquorum/redquorum/bench/versus/figures"
)

func recovery() *figures.Recovery {
	return &figures.Recovery{
		Setup:   "a setup",
		Step:    0.5,
		Phases:  []figures.Phase{{Title: figures.Calm, From: 0, To: 1}, {Title: "one killed", From: 1, To: 2}},
		Courses: []figures.Course{{Peer: "redquorum", Locks: []float64{1000, 2000, 0, 0}, Waits: []float64{2, 1, 0, 1000}}},
	}
}

func TestTheTableOfTheRecoveryHasARowForEachPhase(t *testing.T) {
	const want = `| seconds |  | redquorum, locks/s | longest wait, ms |
| ---: | --- | ---: | ---: |
| 0–1 | calm | 1,500 | 2 |
| 1–2 | one killed | 0 | 1,000 |
`
	if got := describeRecovery(recovery()); !strings.HasSuffix(got, "\n\n"+want) {
		t.Errorf("got\n%s\nwant at its end\n%s", got, want)
	}
}

func TestTheChartOfTheRecoveryNamesItsFaults(t *testing.T) {
	svg, err := drawRecovery(recovery())
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(svg, []byte(">one killed<")) || bytes.Contains(svg, []byte(">calm<")) || !bytes.Contains(svg, []byte(">redquorum<")) {
		t.Errorf("got\n%s", svg)
	}
}
