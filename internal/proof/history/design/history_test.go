package design

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof"
	"github.com/redquorum/redquorum/internal/proof/search"
)

var (
	seed    = flag.Uint64("seed", 1, "of the histories")
	history = flag.Int64("history", -1, "the number of one history to tell")
)

// TestNoHistoryBreaksAClaim plays REDQUORUM_HISTORIES histories.
func TestNoHistoryBreaksAClaim(t *testing.T) {
	histories := uint64(20_000)
	if search.Race {
		histories /= 20
	}
	if text := os.Getenv("REDQUORUM_HISTORIES"); text != "" {
		var err error
		histories, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
	}
	report := Run(*seed, histories, Rules{}, Nothing)
	violations := int64(0)
	if report.Failed {
		violations = 1
		t.Errorf("history %d of seed %d:\n%s", report.Failure, *seed,
			strings.Join(Shrink(*seed, report.Failure, Rules{}, Nothing), "\n"))
	}
	for i, name := range counterNames {
		t.Logf("%12d %s", report.Counts[i], name)
		if histories >= 20_000 && !report.Failed {
			assert.Positive(t, report.Counts[i], name)
		}
	}
	t.Log(proof.Line{
		Step: "protocol simulation", Size: fmt.Sprintf("%d histories, seed %d", report.Histories, *seed),
		Faults: report.Faults, Violations: violations,
	})
}

// TestTellHistory tells one history: go test ./internal/proof/history/design -v -run Tell -seed 1
// -history 42.
func TestTellHistory(t *testing.T) {
	if *history < 0 {
		t.Skip("tells the history of -history")
	}
	lines, broken := Tell(*seed, uint64(*history), Rules{})
	t.Logf("\n%s", strings.Join(lines, "\n"))
	assert.Equal(t, Nothing, broken)
}
