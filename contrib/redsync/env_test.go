package redsync_test

import (
	"testing"
	"time"

	"github.com/redquorum/redquorum/contrib/redsync"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/redlock"
)

func TestMain(m *testing.M) { cluster.Main(m) }

// newRedsync is what a program changes besides its import.
func newRedsync(t *testing.T, c *cluster.Cluster) *redsync.Redsync {
	return redsync.New(cluster.NewConnected(t, c.URLs(), redlock.WithMaxTTL(time.Hour), redlock.WithNodeTimeout(patience)))
}
