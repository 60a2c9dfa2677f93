//go:build unix

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// printTable prints one row for each line of each step. The time of a step is in its first row.
func printTable(to io.Writer, results []result, took time.Duration) error {
	var rows strings.Builder
	rows.WriteString("\nstep\tsize\tfaults\tviolations\ttime\t\n")
	for _, r := range results {
		seconds := fmt.Sprintf("%.0fs", r.took.Seconds())
		if len(r.lines) == 0 {
			fmt.Fprintf(&rows, "%s\tFAILED\t\t\t%s\t\n", r.step.name, seconds)
		}
		for _, line := range r.lines {
			faults := fmt.Sprint(line.Faults)
			if line.Faults == 0 {
				faults = "–"
			}
			fmt.Fprintf(&rows, "%s\t%s\t%s\t%d\t%s\t\n", cmp.Or(line.Step, r.step.name), line.Size, faults, line.Violations, seconds)
			seconds = ""
		}
	}
	fmt.Fprintf(&rows, "all\t\t\t\t%.0fs\t\n", took.Seconds())
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	_, err := io.WriteString(w, rows.String())
	return errors.Join(err, w.Flush())
}
