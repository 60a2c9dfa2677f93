package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var linked = regexp.MustCompile(`^\[[^\]]+\]\([^)\s]+\)$`)

// A reader can check what the page says of others.
func TestEveryCellOfTheComparisonHasASource(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "comparison.md"))
	require.NoError(t, err)
	checked := 0
	for line := range strings.Lines(strings.ReplaceAll(string(page), "\r\n", "\n")) {
		row, isTable := strings.CutPrefix(strings.TrimSpace(line), "| ")
		if !isTable || strings.HasPrefix(row, "|") || strings.HasPrefix(row, "--") {
			continue // the heads of columns have none
		}
		for _, cell := range strings.Split(strings.TrimSuffix(row, " |"), " | ")[1:] {
			assert.Regexp(t, linked, cell)
			checked++
		}
	}
	assert.Equal(t, 10*4+9*5, checked)
}
