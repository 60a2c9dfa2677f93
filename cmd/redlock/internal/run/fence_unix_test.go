//go:build unix

package run

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
)

func TestCommandsFindGrowingFencesInTheirEnvironment(t *testing.T) {
	t.Parallel()
	_, urls := clitest.StartServers(t, 3)
	last := int64(0)
	for range 3 {
		status, stdout, stderr := clitest.Run(t, urls, "run", "--name", "x", "--fence", "--", "sh", "-c", "echo $REDLOCK_FENCE")
		require.Equal(t, 0, status, stderr)
		fence, err := strconv.ParseInt(strings.TrimSpace(stdout), 10, 64)
		require.NoError(t, err)
		assert.Greater(t, fence, last)
		last = fence
	}
	_, stdout, _ := clitest.Run(t, urls, "run", "--name", "x", "--", "sh", "-c", "echo $REDLOCK_FENCE")
	assert.Empty(t, strings.TrimSpace(stdout), "without --fence")
}
