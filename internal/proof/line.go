// Package proof is what the steps of `make prove` report, and the table that is made of it.
package proof

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Line is what one step found. A step prints it once, alone on a line of its output.
type Line struct {
	Step       string `json:"step"`
	Size       string `json:"size"` // with its unit: "1000000 histories"
	Faults     int64  `json:"faults"`
	Violations int64  `json:"violations"`

	Reached map[string]int `json:"reached,omitempty"` // how often each rare state was
}

const prefix = "proof: "

// String returns the line as a step prints it.
func (l Line) String() string {
	text, err := json.Marshal(l)
	if err != nil {
		panic(err) // strings and numbers only
	}
	return prefix + string(text)
}

// Parse finds a Line in a line of output, which may have more before it, as those of a test do.
func Parse(text string) (l Line, ok bool) {
	_, text, ok = strings.Cut(text, prefix)
	return l, ok && json.Unmarshal([]byte(text), &l) == nil && l.Step != ""
}

// Tail returns the end of what a step printed.
func Tail(output string) string {
	const most = 6000
	return output[max(len(output)-most, 0):]
}

// PrintTable prints rows in columns, below an empty line.
func PrintTable(to io.Writer, rows [][]string) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	_, err := fmt.Fprintln(w)
	for _, row := range rows {
		_, failed := fmt.Fprintf(w, "%s\t\n", strings.Join(row, "\t"))
		err = errors.Join(err, failed)
	}
	return errors.Join(err, w.Flush())
}
