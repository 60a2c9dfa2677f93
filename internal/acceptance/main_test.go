package acceptance_test

import (
	"testing"

	"github.com/redquorum/redquorum/internal/cluster"
	"github.com/redquorum/redquorum/internal/search"
)

func TestMain(m *testing.M) {
	search.RunMore(2)
	cluster.Main(m)
}
