package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
	"github.com/redquorum/redquorum/redlock"
)

// A lock may be missing on masters that have forgotten it, although they answer.
func TestListDoesNotCountOnMastersThatForgot(t *testing.T) {
	t.Parallel()
	l := startListed(t)
	_, err := l.locker.TryLock(t.Context(), "x", redlock.WithoutRenewal(), redlock.WithTTL(time.Minute))
	require.NoError(t, err)
	forget := func(node int) {
		_, err := l.servers[node].Do("FLUSHALL")
		require.NoError(t, err)
	}
	forget(1)
	status, list, text, stderr := l.list()
	assert.Zero(t, status, stderr)
	assert.True(t, list.Complete)
	assert.Equal(t, []string{"x"}, namesIn(list.Locks))
	assert.True(t, list.Nodes[0].Votes)
	assert.False(t, list.Nodes[1].Votes)
	assert.Contains(t, text, l.servers[1].URL()+" does not vote, and may lack locks: quarantined for another ")
	assert.Contains(t, text, "2 of 3 masters were listed in full: every lock that is held is there.")

	forget(0)
	_, list, text, _ = l.list("other*")
	assert.False(t, list.Complete)
	assert.Contains(t, text, "No locks were found.")
	assert.Contains(t, text, "LOCKS MAY BE MISSING: 1 of 3 masters were listed in full, 2 are needed.")
}

func TestListOfANewClusterIsComplete(t *testing.T) {
	t.Parallel()
	servers, urls := clitest.StartNewServers(t, 3)
	l := listed{t: t, servers: servers, nodes: strings.Join(urls, ",")}
	status, list, text, stderr := l.list()
	assert.Zero(t, status, stderr)
	assert.True(t, list.Complete)
	assert.False(t, list.Nodes[0].Votes, "the first client that wants a lock makes it vote")
	assert.Equal(t, "No locks.\n", text)
}
