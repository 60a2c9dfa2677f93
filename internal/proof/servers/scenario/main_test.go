package scenario_test

import (
	"testing"

	"github.com/redquorum/redquorum/internal/proof/search"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
)

func TestMain(m *testing.M) {
	search.RunMore(2)
	cluster.Main(m)
}
