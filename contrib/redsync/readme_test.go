package redsync_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/docs"
)

func TestTheCodeOfTheReadmeCompiles(t *testing.T) {
	checker, err := docs.NewChecker(".", "context", "time", "github.com/redquorum/redquorum/redlock", ours)
	require.NoError(t, err)
	checked, err := checker.CheckPage("README.md", "var ctx context.Context")
	require.NoError(t, err)
	assert.Equal(t, 1, checked)
}
