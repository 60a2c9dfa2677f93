package scenario_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/redlock"
)

const (
	// longTTL is the TTL where keys must go because they are released, not because they expire.
	longTTL = 30 * time.Second

	// patience is a node timeout that no healthy round comes near, not even on a busy machine. What
	// ends within it has not waited for a node that is away.
	patience = 5 * time.Second

	// slack is what a busy machine may add to a bound.
	slack = 5 * time.Second
)

// must checks the error of a call that breaks or mends a master.
func must(t *testing.T, err error) {
	t.Helper()
	require.NoError(t, err)
}

// endpointsOf returns the nodes that an error names, sorted.
func endpointsOf(failure *redlock.QuorumError) (endpoints []string) {
	for _, err := range failure.Nodes.WrappedErrors() {
		if node, ok := err.(*redlock.NodeError); ok { //nolint:errorlint // the list has them as they are
			endpoints = append(endpoints, node.Endpoint)
		}
	}
	slices.Sort(endpoints)
	return endpoints
}

// requireNodesSay asserts that an error names exactly these nodes, and that the text of each
// matches words, a regular expression.
func requireNodesSay(t *testing.T, err error, urls []string, words string) {
	t.Helper()
	var failure *redlock.QuorumError
	require.ErrorAs(t, err, &failure)
	assert.Equal(t, slices.Sorted(slices.Values(urls)), endpointsOf(failure))
	for _, node := range failure.Nodes.WrappedErrors() {
		assert.Regexp(t, words, node.Error())
	}
}
