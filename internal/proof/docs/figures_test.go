package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// ratio matches a median with the lowest and the highest of its rounds.
var ratio = regexp.MustCompile(`\d+\.\d\d \(\d+\.\d\d–\d+\.\d\d\)`)

// make versus writes docs/benchmarks.md, and README quotes it.
func TestTheFiguresOfTheReadmeAreMeasured(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	require.NoError(t, err)
	benchmarks, err := os.ReadFile(filepath.Join(root, "docs", "benchmarks.md"))
	require.NoError(t, err)
	measured := map[string]bool{}
	for _, figure := range ratio.FindAllString(string(benchmarks), -1) {
		measured[figure] = true
	}
	quoted := ratio.FindAllString(string(readme), -1)
	assert.GreaterOrEqual(t, len(quoted), 7)
	for _, figure := range quoted {
		assert.True(t, measured[figure], "%s is not in docs/benchmarks.md: quote the present figures", figure)
	}
}
