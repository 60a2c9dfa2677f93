// Package proof is what the steps of `make prove` report, and the table that is made of it.
package proof

import (
	"encoding/json"
	"strings"
)

// Line is what one step found. A step prints it once, alone on a line of its output.
type Line struct {
	Step       string `json:"step"`
	Size       string `json:"size"` // with its unit: "1000000 histories"
	Faults     int64  `json:"faults"`
	Violations int64  `json:"violations"`
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
