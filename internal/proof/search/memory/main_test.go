package memory

import (
	"testing"

	"github.com/redquorum/redquorum/internal/proof/search"
)

func TestMain(m *testing.M) { search.Main(m, "memory") }
