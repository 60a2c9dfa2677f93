package scenario_test

import (
	"testing"

	"github.com/redquorum/redquorum/internal/proof/search"
	"github.com/redquorum/redquorum/internal/proof/servers/child"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
)

func TestMain(m *testing.M) {
	child.Play(map[string]child.Role{
		"writer": playLateWriter, "contender": playContender, "worker": playWorker,
	})
	search.RunMore(5) // they wait more than they work
	cluster.Main(m)
}
