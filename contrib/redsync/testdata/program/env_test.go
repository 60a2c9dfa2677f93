package redsync_test

import (
	"testing"

	"github.com/go-redsync/redsync/v4"

	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
)

func newRedsync(t *testing.T, c *cluster.Cluster) *redsync.Redsync {
	return redsync.New(newPools(t, c.Masters)...)
}
