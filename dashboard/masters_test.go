package dashboard

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/admin/survey"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/redlock"
)

// The page was opened with a list of which nothing is left.
func TestThePageFollowsTheMembersUntilNoneOfItsListIsLeft(t *testing.T) {
	t.Parallel()
	const maxTTL = time.Second
	servers := redistest.Start(t, 3)
	locker, err := redlock.New([]string{servers[0].URL()}, redlock.WithMaxTTL(maxTTL), redlock.WithTTL(maxTTL), redlock.WithNodeTimeout(maxTTL/2))
	require.NoError(t, err)
	t.Cleanup(func() { _ = locker.Close() }) // it may owe a release to the master that is gone
	require.NoError(t, locker.Ready(t.Context()))
	d, err := New(t.Context(), []string{servers[0].URL()}, WithMaxTTL(maxTTL), WithBounds(1000, 100))
	require.NoError(t, err)
	t.Cleanup(d.Close)
	learns := func(version int64) { // a client misses no change, as there is a MaxTTL between two
		require.Eventually(t, func() bool {
			do(d, "GET", "/lock?name=x") // or within some seconds, if nobody looks
			return d.watch.source.stats().Version == version
		}, time.Minute, 10*time.Millisecond)
	}
	for i, server := range servers[1:] {
		require.NoError(t, admin.Of(locker).Cluster().Add(t.Context(), server.URL()))
		learns(int64(i + 2))
	}
	members, err := admin.Of(locker).Cluster().Members(t.Context())
	require.NoError(t, err)
	require.NoError(t, admin.Of(locker).Cluster().Remove(t.Context(), members.Members[0].ID))
	learns(4)
	require.NoError(t, servers[0].Kill())
	_, err = locker.Lock(t.Context(), "x")
	require.NoError(t, err)

	require.Eventually(t, func() bool { return admin.CountVotes(d.watch.source.stats().Nodes) == 2 }, time.Minute, 10*time.Millisecond)
	for _, target := range []string{"/", "/locks", "/members", "/lock?name=x"} {
		page := get(t, d, target)
		assert.NotContains(t, page, "Nobody can get a lock", target)
		assert.NotContains(t, page, "Too few", target)
	}
	assert.Contains(t, get(t, d, "/metrics"), "redquorum_quorum_nodes 2\n")
	var list survey.Listing
	w := do(d, "GET", "/api/v1/list")
	require.Equal(t, http.StatusOK, w.Code)
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &list))
	assert.True(t, list.Complete)
	require.Len(t, list.Locks, 1)
	assert.Equal(t, []any{"held", 2}, []any{list.Locks[0].Verdict, list.Locks[0].Members})
	var told survey.Members
	require.NoError(t, json.Unmarshal([]byte(get(t, d, "/api/v1/members")), &told))
	assert.Len(t, told.Members, 2)
}
