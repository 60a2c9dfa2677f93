package otel_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/docs"
)

func TestTheCodeOfTheReadmeCompiles(t *testing.T) {
	checker, err := docs.NewChecker(".", "github.com/redquorum/redquorum/redlock", "redotel=github.com/redquorum/redquorum/contrib/otel")
	require.NoError(t, err)
	checked, err := checker.CheckPage("README.md", "var endpoints []string")
	require.NoError(t, err)
	assert.Equal(t, 1, checked)
}
