package search

import (
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	"github.com/redquorum/redquorum/internal/proof"
)

// What all searches of this process found.
var states, broken atomic.Int64

func tally(r Report) {
	states.Add(int64(r.States))
	if r.Broken != "" {
		broken.Add(1)
	}
}

// Main is the TestMain of a model. It says how much was searched.
func Main(m *testing.M, model string) {
	code := m.Run()
	line := proof.Line{
		Step: "search of " + model,
		Size: fmt.Sprintf("%d states, %d mistakes found", states.Load(), broken.Load()),
	}
	if code != 0 {
		line.Violations = 1
	}
	if testing.Verbose() {
		fmt.Println(line)
	}
	os.Exit(code)
}
